"""TensorFlow's best-fit allocator, as arithmetic: where each request lands, what it really takes, when it fails.

A device's memory is not a number but a row of chunks. Requests are rounded up, a chunk that is less than twice the
request is handed out whole, free neighbours merge, and regions that were taken one after the other never do. So what
counts as in use is more than what was asked for, and a step can run out where the sum of its tensors would fit.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from fitroom.units import MIB

GRANULE = 256
_FIRST_REGION = 2 * MIB
_BITS = 48  # of a place
_NEVER_WASTED = 128 * MIB  # a chunk with this much to spare is split, however large the request


class ArenaFull(Exception):
    """A request that does not fit."""


class Chunk:
    """A piece of a region: where it is, how large, its neighbours, and whether it is taken."""

    __slots__ = ("after", "before", "is_taken", "place", "size")

    def __init__(self, place: int, size: int) -> None:
        self.place = place
        self.size = size
        self.before: Chunk | None = None
        self.after: Chunk | None = None
        self.is_taken = False


class Arena:
    """The chunks of one device.

    Args:
        limit: how many bytes there are; None for as many as are asked for.
        in_one_region: whether all of them are there from the start, as on a GPU without growth.

    Attributes:
        in_use: bytes in chunks that are taken.
        peak: the most that was ever in use.
    """

    def __init__(self, limit: int | None = None, *, in_one_region: bool = False) -> None:
        self.limit = limit
        self.in_use = 0
        self.peak = 0
        self._next_region = limit if in_one_region and limit is not None else _FIRST_REGION
        self._regions = 0  # bytes in all of them
        self._end = 0
        self._free: list[int] = []  # each free chunk's size and place in one number, smallest first
        self._at: dict[int, Chunk] = {}  # the free chunks, by that number

    @property
    def free(self) -> tuple[int, ...]:
        """Which chunks are free, and how large: what decides where the next request lands."""
        return tuple(self._free)

    def take(self, size: int) -> Chunk:
        """A chunk of at least `size` bytes.

        Raises:
            ArenaFull: if there is none, and no region to be had.
        """
        wanted = -(-size // GRANULE) * GRANULE or GRANULE
        free, at = self._free, self._at  # this runs a hundred thousand times for a table of sizes
        found = bisect_left(free, wanted << _BITS)
        if found == len(free):
            self._extend(wanted)
            found = bisect_left(free, wanted << _BITS)
        chunk = at.pop(free.pop(found))
        spare = chunk.size - wanted
        if spare >= wanted or spare >= _NEVER_WASTED:
            rest, after = Chunk(chunk.place + wanted, spare), chunk.after
            rest.before, rest.after = chunk, after
            if after is not None:
                after.before = rest
            chunk.after, chunk.size = rest, wanted
            key = spare << _BITS | rest.place
            insort(free, key)
            at[key] = rest
        chunk.is_taken = True
        self.in_use += chunk.size
        if self.in_use > self.peak:
            self.peak = self.in_use
        return chunk

    def give_back(self, chunk: Chunk) -> None:
        """Free a chunk, and merge it with free neighbours."""
        chunk.is_taken = False
        self.in_use -= chunk.size
        after, before = chunk.after, chunk.before
        if after is not None and not after.is_taken:
            self._forget(after)
            _merge(chunk, after)
        if before is not None and not before.is_taken:
            self._forget(before)
            _merge(before, chunk)
            chunk = before
        key = chunk.size << _BITS | chunk.place
        insort(self._free, key)
        self._at[key] = chunk

    def _extend(self, wanted: int) -> None:
        left = None if self.limit is None else (self.limit - self._regions) // GRANULE * GRANULE
        if left is not None and wanted > left:
            raise ArenaFull(wanted)
        doubled = self._next_region
        while doubled < wanted:
            doubled *= 2
        size = doubled if left is None else min(doubled, left)
        self._next_region = doubled if doubled > self._next_region else 2 * doubled
        self._regions += size
        key = size << _BITS | self._end
        insort(self._free, key)
        self._at[key] = Chunk(self._end, size)
        self._end += size

    def _forget(self, chunk: Chunk) -> None:
        key = chunk.size << _BITS | chunk.place
        del self._free[bisect_left(self._free, key)]
        del self._at[key]


def _merge(chunk: Chunk, after: Chunk) -> None:
    """Have a chunk take over the one after it."""
    chunk.size += after.size
    chunk.after = after.after
    if after.after is not None:
        after.after.before = chunk
