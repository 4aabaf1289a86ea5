"""Bars and sparklines: numbers as a line of blocks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

_LEVELS = "▁▂▃▄▅▆▇█"


def bar(share: float, width: int) -> str:
    """How much of something is used, as a bar of this many characters."""
    full = round(max(0.0, min(share, 1.0)) * width)
    return "█" * full + "░" * (width - full)


def split_bar(shares: Sequence[float], width: int, blocks: str = "█▓░") -> str:
    """Parts of a whole as one bar."""
    ends = [round(min(sum(shares[: number + 1]), 1.0) * width) for number in range(len(shares))]
    begins = [0, *ends[:-1]]
    return "".join(block * (end - begin) for block, begin, end in zip(blocks, begins, ends, strict=False)).ljust(width)


def sparkline(values: Sequence[float | None], width: int, top: float | None = None) -> str:
    """Values over time, at most `width` of them: where there are more, the largest of neighbours; a gap is a space.

    Args:
        values: oldest first.
        width: how many characters there are.
        top: what a full block stands for; the largest value without it.
    """
    if width < 1 or not values:
        return ""
    columns = min(width, len(values))
    pooled = [_largest(values[c * len(values) // columns : (c + 1) * len(values) // columns]) for c in range(columns)]
    most = top or max((one for one in pooled if one is not None), default=0.0)
    return "".join(" " if one is None else _LEVELS[_level(one, most)] for one in pooled)


def resampled(spans: Iterable[tuple[float, float, float]], columns: int) -> tuple[float | None, ...]:
    """Values with the time over which they were measured, as one value for each of so many equal parts of that time.

    Args:
        spans: first and last moment, and value; oldest first.
        columns: how many parts.
    """
    found = list(spans)
    if not found:
        return ()
    begin, lasted = found[0][0], found[-1][1] - found[0][0]
    parts: list[float | None] = [None] * (columns if lasted > 0 else 1)
    scale = len(parts) / lasted if lasted > 0 else 0.0
    previous = begin
    for _, last, value in found:  # a value stands for the time since the one before it
        end = max(math.ceil((last - begin) * scale), 1)
        first = max(0, min(int((previous - begin) * scale), end - 1))  # a clock may have been set back
        parts[first:end] = [value if one is None else max(one, value) for one in parts[first:end]]
        previous = last
    return tuple(parts)


def _largest(values: Sequence[float | None]) -> float | None:
    return max((one for one in values if one is not None), default=None)


def _level(value: float, most: float) -> int:
    if most <= 0:
        return 0
    return max(0, min(len(_LEVELS) - 1, int(value / most * len(_LEVELS))))
