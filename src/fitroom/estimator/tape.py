"""A step's requests and releases in their real order, each as a line over the batch size.

The same step is recorded at two sizes. What an operation asked for is found again by its name, its role and how often
it had asked before, and its bytes are drawn as a line through the two: an activation grows with the batch, a weight's
gradient does not. The order of things is the larger recording's.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fitroom.estimator.arena import GRANULE

Line = tuple[float, float]  # bytes at no sample at all, and for each sample


class Request(NamedTuple):
    """Something that was asked for during a step.

    Attributes:
        op: the operation that asked.
        role: ``output``, ``temp``, ``persist``; ``resident`` for what was there before the step and was released in it.
        line: its bytes over the batch size.
        above: it is asked for in batches of more samples than this only.
    """

    op: str
    role: str
    line: Line
    above: int = 0


class Move(NamedTuple):
    """A request, or its release."""

    request: int
    takes: bool


class Tape:
    """One step, for any batch size.

    Attributes:
        requests: what was asked for.
        moves: in their order.
        base: bytes in use before the step.
        stays: requests that outlived the step, with the resident whose place each took.
    """

    def __init__(self, requests: list[Request], moves: list[Move], base: int) -> None:
        self.requests = requests
        self.moves = moves
        self.base = base
        self._lines = np.array([one.line for one in requests], np.float64).reshape(-1, 2)
        self._above = np.array([one.above for one in requests], np.int64)
        self._order = np.array([move.request for move in moves], np.int64)
        self._signs = np.array([1 if move.takes else -1 for move in moves], np.int64)
        self.stays = self._replaced()

    def without(self, role: str) -> Tape:
        """The same, had nothing been asked for in this role."""
        kept = [move for move in self.moves if self.requests[move.request].role != role]
        return Tape(self.requests, kept, self.base)

    def beside(self, others: int) -> Tape:
        """The same, had so many bytes more been in use before the step."""
        return Tape(self.requests, self.moves, self.base + others) if others else self

    def sizes(self, batch: int) -> npt.NDArray[np.int64]:
        """The bytes of every request, rounded as the allocator rounds them."""
        exact = np.maximum(self._lines[:, 0] + self._lines[:, 1] * batch, 1.0)
        rounded = (np.ceil(exact / GRANULE) * GRANULE).astype(np.int64)
        found: npt.NDArray[np.int64] = np.where(batch > self._above, rounded, 0)
        return found

    def in_use(self, batch: int) -> npt.NDArray[np.int64]:
        """Bytes in use after every move."""
        found: npt.NDArray[np.int64] = self.base + np.cumsum(self._signs * self.sizes(batch)[self._order])
        return found

    def live(self, until: int) -> npt.NDArray[np.bool_]:
        """Which requests of this step are alive after the move `until`."""
        order, signs = self._order[: until + 1], self._signs[: until + 1]
        found: npt.NDArray[np.bool_] = np.bincount(order, signs, minlength=len(self.requests)) > 0
        return found

    def large(self, batch: int, most: int) -> list[tuple[int, bool, int]]:
        """The moves of the `most` largest requests: which request, whether it takes, and its size."""
        sizes = self.sizes(batch)
        chosen = np.zeros(len(sizes), bool)
        chosen[np.argpartition(-sizes, most)[:most] if most < len(sizes) else ...] = True
        keep = chosen[self._order] & (sizes[self._order] > 0)
        order = self._order[keep]
        return list(zip(order.tolist(), (self._signs[keep] > 0).tolist(), sizes[order].tolist(), strict=True))

    def _replaced(self) -> dict[int, int]:
        """A new value of a variable stays when the step is over, and what was there before is released."""
        residents = defaultdict(list)
        taken: set[int] = set()
        released: set[int] = set()
        for move in self.moves:
            (taken if move.takes else released).add(move.request)
        for place in released - taken:
            residents[self.requests[place].line].append(place)
        stays = {}
        for place in sorted(taken - released):
            same = residents[self.requests[place].line]
            if same:
                stays[place] = same.pop()
        return stays


class Recorded(NamedTuple):
    """Recordings of the same step at one size.

    Attributes:
        batch: the size; their lines hold from the next smaller size that was recorded up to it.
        tapes: one for each time that it was recorded.
    """

    batch: int
    tapes: list[Tape]


def scaled(small: Sequence[Any], small_batch: int, large: Sequence[Any], large_batch: int) -> Tape:
    """The tape of a step that was recorded at two sizes; the events are those of the allocator's trace."""
    known, nameless = _asked(small), _ranked(small, large)
    same = set(known.values())  # sizes that are there at the smaller size, too
    requests: list[Request] = []
    moves: list[Move] = []
    alive: dict[int, int] = {}
    seen: Counter[tuple[str, str]] = Counter()
    for event in large:
        if event.kind == "take":
            key = event.op, event.role
            seen[key] += 1
            before = known.get((*key, seen[key])) if event.op else nameless.get(event.bytes)
            line, above = _line(event, before, same, small_batch, large_batch)
            alive[event.place] = len(requests)
            moves.append(Move(len(requests), True))
            requests.append(Request(*key, line, above))
        elif event.kind == "give":
            place = alive.pop(event.place, None)
            if place is None:
                place = len(requests)
                requests.append(Request(event.op, "resident", (float(event.bytes), 0.0)))
            moves.append(Move(place, False))
    first = next((event for event in large if event.kind in ("take", "give")), None)
    if first is None:
        return Tape([], [], 0)
    base = first.in_use - first.bytes if first.kind == "take" else first.in_use + first.bytes
    return Tape(requests, moves, base)


def _line(event: Any, before: int | None, same: set[int], small_batch: int, large_batch: int) -> tuple[Line, int]:
    """A request's bytes over the batch size, and above which size it is there."""
    if before is None and event.role == "temp" and event.bytes not in same:
        return (float(event.bytes), 0.0), small_batch  # a kernel that works otherwise on larger batches
    if before is None:
        # Whether a kernel takes a buffer of its own for its result may depend on the moment.
        proportional = event.bytes * small_batch / large_batch
        slope = (event.bytes - (event.bytes if event.bytes in same else proportional)) / (large_batch - small_batch)
    else:
        slope = (event.bytes - before) / (large_batch - small_batch)
    return (event.bytes - slope * large_batch, slope), 0


def fixed(events: Sequence[Any]) -> Tape:
    """The tape of something that does not depend on the batch: how a model comes into being."""
    return scaled(events, 0, events, 1)


def resident(variables: Sequence[tuple[str, int]]) -> Tape:
    """The tape of variables that come into being one after the other, for want of a recording."""
    requests = [Request(path, "persist", (float(size), 0.0)) for path, size in variables]
    return Tape(requests, [Move(place, True) for place in range(len(requests))], 0)


def _asked(events: Sequence[Any]) -> dict[tuple[str, str, int], int]:
    seen: Counter[tuple[str, str]] = Counter()
    found = {}
    for event in events:
        if event.kind == "take":
            seen[event.op, event.role] += 1
            found[event.op, event.role, seen[event.op, event.role]] = event.bytes
    return found


def _ranked(small: Sequence[Any], large: Sequence[Any]) -> dict[int, int]:
    """For what has no operation's name, such as XLA's one block: its size at the smaller batch, by rank."""
    ranks = [sorted(event.bytes for event in one if event.kind == "take" and not event.op) for one in (small, large)]
    return dict(zip(ranks[1], ranks[0], strict=True)) if len(ranks[0]) == len(ranks[1]) else {}
