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
_NEVER_WASTED = 128 * MIB  # a chunk with this much to spare is split, however large the request


class ArenaFull(Exception):
    """A request that does not fit."""


class Arena:
    """The chunks of one device.

    Args:
        limit: how many bytes there are; None for as many as are asked for.
        grows: whether regions are taken as they are needed, or all of the limit at once.

    Attributes:
        in_use: bytes in chunks that are taken.
        peak: the most that was ever in use.
    """

    def __init__(self, limit: int | None = None, *, grows: bool = True) -> None:
        self.limit = limit
        self.in_use = 0
        self.peak = 0
        self._next_region = _FIRST_REGION if grows or limit is None else limit
        self._taken = 0  # in regions
        self._end = 0
        self._free: list[tuple[int, int]] = []  # size and place, smallest first
        self._size: dict[int, int] = {}  # of the chunk at a place
        self._before: dict[int, int | None] = {}
        self._after: dict[int, int | None] = {}
        self._used: set[int] = set()

    def take(self, size: int) -> int:
        """The place of a chunk of at least `size` bytes.

        Raises:
            ArenaFull: if there is none, and no region to be had.
        """
        wanted = max(GRANULE, -(-size // GRANULE) * GRANULE)
        found = bisect_left(self._free, (wanted, -1))
        if found == len(self._free):
            self._extend(wanted)
            found = bisect_left(self._free, (wanted, -1))
        given, place = self._free.pop(found)
        if given >= 2 * wanted or given - wanted >= _NEVER_WASTED:
            self._split(place, wanted, given)
            given = wanted
        self._used.add(place)
        self.in_use += given
        self.peak = max(self.peak, self.in_use)
        return place

    def give_back(self, place: int) -> None:
        """Free the chunk at `place`, and merge it with free neighbours."""
        self._used.discard(place)
        size = self._size[place]
        self.in_use -= size
        after = self._after[place]
        if after is not None and after not in self._used:
            size += self._absorb(after)
        before = self._before[place]
        if before is not None and before not in self._used:
            self._forget_free(before)
            size += self._size[before]
            self._drop(place)
            place = before
        self._size[place] = size
        insort(self._free, (size, place))

    def _extend(self, wanted: int) -> None:
        left = None if self.limit is None else (self.limit - self._taken) // GRANULE * GRANULE
        if left is not None and wanted > left:
            raise ArenaFull(wanted)
        doubled = self._next_region
        while doubled < wanted:
            doubled *= 2
        size = doubled if left is None else min(doubled, left)
        self._next_region = doubled if doubled > self._next_region else 2 * doubled
        self._taken += size
        place = self._end
        self._end += size + GRANULE  # regions never adjoin
        self._size[place] = size
        self._before[place] = self._after[place] = None
        insort(self._free, (size, place))

    def _split(self, place: int, wanted: int, given: int) -> None:
        rest, after = place + wanted, self._after[place]
        self._size[place], self._size[rest] = wanted, given - wanted
        self._after[place], self._before[rest], self._after[rest] = rest, place, after
        if after is not None:
            self._before[after] = rest
        insort(self._free, (given - wanted, rest))

    def _absorb(self, place: int) -> int:
        """Take a free chunk out of the row; its size."""
        self._forget_free(place)
        size = self._size[place]
        self._drop(place)
        return size

    def _drop(self, place: int) -> None:
        """Take a chunk out of the row: the one before it takes over."""
        del self._size[place]
        before, after = self._before.pop(place), self._after.pop(place)
        if before is not None:
            self._after[before] = after
        if after is not None:
            self._before[after] = before

    def _forget_free(self, place: int) -> None:
        del self._free[bisect_left(self._free, (self._size[place], place))]
