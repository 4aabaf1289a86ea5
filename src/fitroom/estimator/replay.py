"""Tapes run through the allocator again, at a size that never ran: what is in use at the peak, and what it takes.

Two things are told apart. What the tensors take is arithmetic. What the allocator adds to it, because chunks are handed
out whole and regions do not merge, depends on everything that went before, so that it differs from run to run; the
recorded steps, one after the other in a fresh arena, give its usual size.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence

from fitroom.estimator.arena import Arena, ArenaFull, Chunk
from fitroom.estimator.tape import Recorded, Tape

_MOVES = 800  # the largest of a step: the others make next to no difference to where these land
_STEPS = 3  # recordings that run one after the other
_ROUNDS = 2  # how often: it takes some steps until the arena is as untidy as it will be


class Replay:
    """Recorded steps of one kind, for any batch size.

    Args:
        prelude: how the model came into being, from an empty arena on.
        recorded: the step at several sizes, the smallest first.
    """

    def __init__(self, prelude: Tape, recorded: Sequence[Recorded]) -> None:
        self.prelude = prelude
        self.recorded = recorded
        self._slack: dict[int, int] = {}

    def tapes(self, batch: int) -> list[Tape]:
        """The recordings that tell of this size, the one with the lowest peak first."""
        found = next((one for one in self.recorded if one.batch >= batch), self.recorded[-1])
        return sorted(found.tapes, key=lambda tape: int(tape.in_use(batch).max()))

    def usual(self, batch: int) -> tuple[Tape, int]:
        """The recording whose peak is the middle one at this size, and the move after which it is there."""
        tapes = self.tapes(batch)
        tape = tapes[len(tapes) // 2]
        return tape, int(tape.in_use(batch).argmax())

    def tensors(self, batch: int) -> int:
        """Bytes in tensors at the peak, usually."""
        tape, place = self.usual(batch)
        return int(tape.in_use(batch)[place])

    def slack(self, batch: int) -> int:
        """Bytes that the allocator adds at the peak, usually."""
        if batch not in self._slack:
            tape, _ = self.usual(batch)
            plain = tape.large_peak(batch, tape.least(batch, _MOVES))
            self._slack[batch] = max(self._run(batch, None) - plain, 0)
        return self._slack[batch]

    def peak(self, batch: int) -> int:
        """Bytes in use at the peak, as the allocator counts them."""
        return self.tensors(batch) + self.slack(batch)

    def runs_in(self, limit: int, batch: int) -> bool:
        """Whether a training at this size would run in an arena of `limit` bytes."""
        if self.tensors(batch) > limit:
            return False
        try:
            self._run(batch, limit)
        except ArenaFull:
            return False
        return True

    def _run(self, batch: int, limit: int | None) -> int:
        """The peak of the steps, one after the other from an empty arena on.

        Raises:
            ArenaFull: if a request does not fit.
        """
        arena = Arena(limit)
        held: dict[int, list[Chunk]] = defaultdict(list)
        before = self.prelude.large(batch, self.prelude.least(batch, _MOVES))
        for place, size in _play(arena, before, held).values():
            held[size].append(place)
        tapes = self.tapes(batch)
        for size in _pieces(min(tape.base for tape in tapes) - arena.in_use):
            arena.take(size)
        arena.peak = arena.in_use
        for tape in tapes[: -_STEPS - 1 : -1] * _ROUNDS:  # the highest first: it is what regions are taken for
            left = _play(arena, tape.large(batch, tape.least(batch, _MOVES)), held)
            for request, (place, size) in left.items():
                if request in tape.stays:
                    held[size].append(place)
                else:
                    arena.give_back(place)
        return arena.peak


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


def largest(runs: Callable[[int], bool], most: int) -> int:
    """The largest size that runs, from 1 to `most`; 0 where none does."""
    return bisect_left(range(1, most + 1), True, key=lambda size: not runs(size))


def _pieces(size: int) -> list[int]:
    """Some small chunks that come to `size`: constants, metrics."""
    piece = 64 * 1024
    return [piece] * (size // piece)
