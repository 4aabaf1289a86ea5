"""Tapes run through the allocator again, at a size that never ran: what is in use at the peak, and what it takes.

Two things are told apart. What the tensors take is arithmetic. What the allocator adds to it, because chunks are handed
out whole and regions do not merge, depends on everything that went before, so that it differs from run to run. Some
recordings of the step, one after the other in a fresh arena, give its usual size: no two steps come in the same order,
which is untidier than the same one again and again. A peak that a third of them reach counts; the highest is a matter
of luck.

Threads take turns as they like, and so one step's peak is not the next one's: of several recordings the one with the
most in tensors counts, since a training has many steps. Those at sizes nearby count, too: on a busy machine there are
few of each.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from fitroom.estimator.arena import Arena, ArenaFull, Chunk
from fitroom.estimator.tape import Recorded, Tape

_LARGE = 1000  # the largest requests of a step: the others make little difference to how much is in use
_ALL = 1 << 20  # requests: they may make all the difference to whether there is a place for each
_NEARBY = 4  # times the size, or part of it
_TURNS, _STEPS = 4, 12  # recordings that take turns, and steps in all: some, until the arena is as untidy as it will be
_REACHED = 4  # of these steps reach what counts as the peak
_FITS = 8  # steps, of recordings that take turns, in which all requests have to find a place
_ALIKE = 1.08  # sizes that differ by less have about the same added, as a share: it takes milliseconds to tell


class _Peak(NamedTuple):
    """The peak at one size.

    Attributes:
        tapes: the recordings that tell of it, the one with the highest peak first.
        tops: bytes in tensors at the peak of each.
        place: the move after which the first one is at its peak.
    """

    tapes: list[Tape]
    tops: list[int]
    place: int

    @property
    def tensors(self) -> int:
        """Bytes in tensors at the highest peak."""
        return self.tops[0]


class Replay:
    """Recorded steps of one kind, for any batch size.

    Args:
        prelude: how the model came into being, from an empty arena on.
        recorded: the step at several sizes, the smallest first.
    """

    def __init__(self, prelude: Tape, recorded: Sequence[Recorded]) -> None:
        self.prelude = prelude
        self._before = prelude.large(1, _LARGE)  # it does not depend on the batch
        self.recorded = recorded
        self._peaks: dict[int, _Peak] = {}
        self._added: dict[int, float] = {}  # as a share of the tensors

    def without(self, role: str) -> Replay:
        """The same, had nothing been asked for in this role."""
        recorded = [Recorded(one.batch, [tape.without(role) for tape in one.tapes]) for one in self.recorded]
        return Replay(self.prelude, recorded)

    def highest(self, batch: int) -> tuple[Tape, int]:
        """The recording whose peak is the highest at this size, and the move after which it is there."""
        found = self._at(batch)
        return found.tapes[0], found.place

    def tensors(self, batch: int) -> int:
        """Bytes in tensors at the peak."""
        return self._at(batch).tensors

    def slack(self, batch: int) -> int:
        """Bytes that the allocator adds at the peak, usually."""
        like = round(_ALIKE ** round(math.log(batch, _ALIKE)))
        if like not in self._added:
            tensors = self.tensors(like)
            self._added[like] = max(self._usual(like) - tensors, 0) / max(tensors, 1)
        return int(self._added[like] * self.tensors(batch))

    def peak(self, batch: int) -> int:
        """Bytes in use at the peak, as the allocator counts them."""
        return self.tensors(batch) + self.slack(batch)

    def _at(self, batch: int) -> _Peak:
        if batch not in self._peaks:
            best = next((one.batch for one in self.recorded if one.batch >= batch), self.recorded[-1].batch)
            nearby = [one for one in self.recorded if best <= _NEARBY * one.batch and one.batch <= _NEARBY * best]
            tapes = (tape for one in nearby for tape in one.tapes)
            uses = sorted(((tape.in_use(batch), tape) for tape in tapes), key=lambda both: -int(both[0].max()))
            tops = [int(use.max()) for use, _ in uses]
            self._peaks[batch] = _Peak([tape for _, tape in uses], tops, int(uses[0][0].argmax()))
        return self._peaks[batch]

    def runs_in(self, limit: int, batch: int, *, in_one_region: bool = False) -> bool:
        """Whether steps of this size run in an arena of `limit` bytes, there from the start or taken as needed."""
        if self.tensors(batch) > limit:
            return False
        try:
            for _ in self._steps(batch, Arena(limit, in_one_region=in_one_region), _TURNS, _FITS, _ALL):
                pass
        except ArenaFull:
            return False
        return True

    def _usual(self, batch: int) -> int:
        """What a step usually has in use at its peak."""
        peaks = sorted(self._steps(batch, Arena(), _TURNS, _STEPS, _LARGE))
        return peaks[max(-_REACHED, -len(peaks))]

    def _steps(self, batch: int, arena: Arena, turns: int, steps: int, most: int) -> Iterator[int]:
        """Have an empty arena go through some steps, of which the `most` largest requests count; the peak of each.

        Args:
            batch: samples.
            arena: empty.
            turns: how many recordings take turns.
            steps: how many steps at most.
            most: requests.

        Raises:
            ArenaFull: if a request does not fit.
        """
        found = self._at(batch)
        before = self._before if most == _LARGE else self.prelude.large(1, most)
        pairs = zip(found.tapes[:turns], found.tops, strict=False)
        chosen = [(tape, tape.large(batch, most), top) for tape, top in pairs]
        held: dict[int, list[Chunk]] = defaultdict(list)
        for place, size in _play(arena, before, held).values():
            held[size].append(place)
        for size in _pieces(min(tape.base for tape in found.tapes) - arena.in_use):
            arena.take(size)
        left_out = [top - tape.base - _highest(moves) for tape, moves, top in chosen]
        for step in range(steps):
            tape, moves, _ = chosen[step % len(chosen)]
            free, arena.peak = arena.free, arena.in_use
            for request, (place, size) in _play(arena, moves, held).items():
                if request in tape.stays:
                    held[size].append(place)
                else:
                    arena.give_back(place)
            peak = arena.peak + left_out[step % len(chosen)]
            yield peak
            if len(chosen) == 1 and arena.free == free:
                yield peak  # the next one finds it as this one did
                return


def _play(
    arena: Arena, moves: list[tuple[int, bool, int]], held: dict[int, list[Chunk]]
) -> dict[int, tuple[Chunk, int]]:
    """Make the moves; what they leave, by request: its place and size. `held`: places of what was there, by size."""
    places: dict[int, tuple[Chunk, int]] = {}
    for request, takes, size in moves:
        if takes:
            places[request] = arena.take(size), size
        elif request in places:
            arena.give_back(places.pop(request)[0])
        elif held[size]:  # a variable whose new value is there already
            arena.give_back(held[size].pop())
    return places


def _highest(moves: list[tuple[int, bool, int]]) -> int:
    """The most that these moves have in use at once."""
    return max(itertools.accumulate((size if takes else -size for _, takes, size in moves), initial=0))


def largest(runs: Callable[[int], bool], most: int) -> int:
    """The largest size that runs, from 1 to `most`; 0 where none does."""
    return bisect_left(range(1, most + 1), True, key=lambda size: not runs(size))


def _pieces(size: int) -> list[int]:
    """Some small chunks that come to `size`: constants, metrics."""
    piece = 64 * 1024
    return [piece] * (size // piece)
