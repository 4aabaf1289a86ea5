"""At which sizes a step is recorded, and how often: as memory and time allow.

Ever larger ones first, because a kernel may work otherwise on larger batches, and that cannot be foreseen. Then the
largest ones again and again, because threads take turns as they like, and one recording is not the next.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from fitroom.devices import pocket
from fitroom.estimator.recorder import Taken
from fitroom.units import MIB

_LADDER = (4, 8, 16, 32, 64)
_ALWAYS = 16  # samples: up to here it climbs, however long that takes
_ROOM = 1024 * MIB  # what the largest step may take beside what stays
_TIME = 1.4  # times the first step's: what all recordings together may take
_AGAIN = 9  # recordings more of sizes that have been recorded,
_TOP = 3  # the largest so many of them
_JUMP = 0.15  # so far from what smaller sizes foretell, a peak is not the same step's any more
_CLOSER = 3  # steps that are spent on finding where that begins
COMPILED = (8, 16)  # samples: what XLA compiles a step for at least,
_LARGEST = 1024  # and at most


def climb(taken: Sequence[Taken], clock: Callable[[], float] = time.perf_counter) -> Iterator[int]:
    """The sizes to record, one after the other; `taken` has what each took, the very first step before all.

    A recording counts from when its size is given to when the next one is asked for: to read thousands of requests
    takes longer than to make them.
    """
    allowed, resident, began = _TIME * taken[0].seconds, pocket.use().current, clock()
    costs: dict[int, float] = {}
    peaks: dict[int, int] = {}
    counts: Counter[int] = Counter()

    def recorded(size: int) -> Iterator[int]:
        asked = clock()
        yield size
        costs[size] = clock() - asked
        peaks[size] = max(peaks.get(size, 0), taken[-1].peak)
        counts[size] += 1

    for size in _LADDER:
        if costs and size < _ALWAYS and clock() - began + (size + _ALWAYS) * costs[_LADDER[0]] / _LADDER[0] > allowed:
            continue  # 16 samples tell more than 8, and there is no time for both
        yield from recorded(size)
        is_full = 2 * (peaks[size] - resident) > _ROOM
        is_long = clock() - began + 2 * costs[size] > allowed
        if (is_full and size > _LADDER[0]) or (is_long and size >= _ALWAYS):
            break
    for _ in range(_CLOSER):
        below, above = jump(peaks)
        if above - below <= max(below // 8, 1) or clock() - began + costs[above] > allowed:
            break
        yield from recorded((below + above) // 2)
    for _ in range(_AGAIN):
        left = allowed - (clock() - began)
        possible = [size for size in sorted(costs)[-_TOP:] if costs[size] <= left]
        if not possible:
            return
        yield from recorded(min(possible, key=lambda size: (counts[size], -size)))


def climb_compiled(taken: Sequence[Taken]) -> Iterator[int]:
    """The sizes to record where XLA compiles for each, which takes long: few, and the largest ones that may be.

    XLA has one block for all that lives at some time. For small batches what the weights need decides how large it is,
    for large ones the activations: a line through small sizes tells nothing of those. Each size comes twice, since the
    first time it is compiled.
    """
    size, resident = COMPILED[0], pocket.use().current
    yield size  # compiled already
    left = _TIME * taken[0].seconds
    for least, part in ((2 * size, 0.5), (0, 1.0)):  # of the room: there is another size to come
        room, patience = part * _ROOM / max(taken[-1].peak - resident, 1), left / taken[-1].seconds / 4
        larger = max(_power_of_two(min(size * min(room, patience), part * _LARGEST)), least)
        if larger <= size:
            return
        size = larger
        yield size
        yield size
        left -= 2 * taken[-1].seconds


def _power_of_two(at_most: float) -> int:
    return 1 << int(math.log2(max(at_most, 1)))


def jump(peaks: dict[int, int]) -> tuple[int, int]:
    """The two sizes between which a step most begins to take more, or less, than those below foretell; else (0, 0)."""
    sizes, found, most = sorted(peaks), (0, 0), 0.0
    for first, second, third in zip(sizes, sizes[1:], sizes[2:], strict=False):
        slope = (peaks[second] - peaks[first]) / (second - first)
        foretold = peaks[second] + slope * (third - second)
        off = abs(peaks[third] - foretold)
        if off > max(most, _JUMP * peaks[third]):
            found, most = (second, third), off
    return found
