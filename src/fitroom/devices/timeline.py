"""What was measured over time, thinned as it goes on: bounded, with every peak in it.

Points come in; spans come out, oldest first. The newest points stay as they came. Where there are too many spans of one
size, the two oldest of them become one, with the mean and the peak of each series: a day is told in minutes, the last
two minutes second by second, and a million points are less than 1,800 spans.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import NamedTuple

PER_SIZE = 128  # spans of one size


class Figure(NamedTuple):
    """One series over a span.

    Attributes:
        mean: over its points.
        peak: the largest of them.
        points: how many had this series.
    """

    mean: float
    peak: float
    points: int = 1

    def merged(self, later: Figure) -> Figure:
        """The figure of both spans."""
        points = self.points + later.points
        peak = max(self.peak, later.peak)
        mean = self.mean * (self.points / points) + later.mean * (later.points / points)
        return Figure(min(mean, peak), peak, points)  # rounding must not lift a mean above its peak


class Span(NamedTuple):
    """Some points in a row.

    Attributes:
        first: when the first of them was, in seconds since the epoch.
        last: when the last of them was.
        points: how many.
        figures: each series over them, by name.
    """

    first: float
    last: float
    points: int
    figures: dict[str, Figure]

    def peak(self, name: str) -> float | None:
        """The largest value of a series; None where it has none."""
        found = self.figures.get(name)
        return None if found is None else found.peak

    def mean(self, name: str) -> float | None:
        """The mean of a series; None where it has none."""
        found = self.figures.get(name)
        return None if found is None else found.mean

    def merged(self, later: Span) -> Span:
        """This span and the one after it as one."""
        figures = {**self.figures, **later.figures}
        for name in self.figures.keys() & later.figures.keys():
            figures[name] = self.figures[name].merged(later.figures[name])
        return Span(self.first, later.last, self.points + later.points, figures)


def point(time: float, values: Mapping[str, float]) -> Span:
    """A single point; values that are no numbers are left out."""
    return Span(time, time, 1, {name: Figure(one, one) for name, one in values.items() if math.isfinite(one)})


class Timeline:
    """Spans of a run, as many as it takes and no more.

    Args:
        per_size: how many spans of one size are kept.
    """

    def __init__(self, per_size: int = PER_SIZE) -> None:
        self._per_size = max(2, per_size)
        self._sizes: list[deque[Span]] = []  # those of one point, of two, of four, …
        self._lock = threading.Lock()  # it grows in one thread, and is looked at in another

    def add(self, span: Span) -> None:
        """Take a point, or a span that another timeline made of points, later than all before."""
        with self._lock:
            self._add(span)

    def _add(self, span: Span) -> None:
        size = max(span.points, 1).bit_length() - 1
        self._at(size).append(span)
        while len(self._at(size)) > self._per_size:
            spans = self._at(size)
            size += 1
            self._at(size).append(spans.popleft().merged(spans.popleft()))

    def __iter__(self) -> Iterator[Span]:
        with self._lock:
            found = [*chain.from_iterable(reversed(self._sizes))]
        return iter(found)

    def __len__(self) -> int:
        return sum(map(len, self._sizes))

    def peak(self, name: str) -> float | None:
        """The largest value that a series ever had; None where it never had one."""
        return max((peak for span in self if (peak := span.peak(name)) is not None), default=None)

    @property
    def newest(self) -> Span | None:
        """The last span; None where there is none."""
        return next((spans[-1] for spans in self._sizes if spans), None)

    def _at(self, size: int) -> deque[Span]:
        while len(self._sizes) <= size:
            self._sizes.append(deque())
        return self._sizes[size]


class Doubling:
    """Points in, ever longer spans out: for files that can only grow.

    After each `per_size` spans the next ones take twice as many points: a million points give about 10,000 spans.
    """

    def __init__(self, per_size: int = 1024) -> None:
        self._per_size = per_size
        self._size = 1
        self._given = 0
        self._open: Span | None = None

    def add(self, one: Span) -> Span | None:
        """Take a point; returns a span once it is whole."""
        self._open = one if self._open is None else self._open.merged(one)
        return self.rest() if self._open.points >= self._size else None

    def rest(self) -> Span | None:
        """What has come since the last span; None where nothing has."""
        span, self._open = self._open, None
        if span is not None:
            self._given += 1
            if self._given >= self._per_size:
                self._given, self._size = 0, 2 * self._size
        return span
