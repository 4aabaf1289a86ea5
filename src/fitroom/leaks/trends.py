"""Does a number keep growing? Slope told from plateau, sawtooth and warm-up. Pure: points in, a Trend out.

What was given back later was not leaked: a series is judged by the lowest value that was still to come. That makes
a sawtooth flat at its teeth's roots, and noise one-sided. What is left has to rise, and go on rising.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

ENOUGH = 9  # points before anything is said
_WARM_UP = 0.25  # of the points: memory is filled for the first time
_STILL = 0.5  # the last third rises at least this much of what the middle one did: else it settles
_ALREADY = 0.2  # the middle third rises at least this much of what the last one does: else it has just begun
_ABOVE_NOISE = 3.0
_ABOVE_TEETH = 2.0
_PARTS, _ALIKE = 4, 1.6  # parts of a straight line, and how much faster one may rise than another


class Point(NamedTuple):
    """A value, and when it was: in turns, and in seconds."""

    turn: float
    seconds: float
    value: float


class Trend(NamedTuple):
    """What a series does.

    Attributes:
        grows: whether it rises, has risen before, and goes on.
        per_turn, per_second: how fast, in the part that was judged.
        risen: how much in that part.
        is_straight: whether it came at one speed: what warms up slows down, or comes in leaps.
    """

    grows: bool
    per_turn: float = 0.0
    per_second: float = 0.0
    risen: float = 0.0
    is_straight: bool = False


class Series:
    """A bounded memory of a series: when it is full, two neighbours become one, and the lower value stays.

    Args:
        room: how many points are kept.
    """

    def __init__(self, room: int = 64) -> None:
        self._room = room
        self._points: list[Point] = []
        self._each = 1  # values that a point stands for
        self._taken = 0  # values in the point that is being made
        self._lowest: Point | None = None

    def add(self, turn: float, seconds: float, value: float) -> None:
        """Take a value; turns and seconds only go up."""
        if self._lowest is None or value <= self._lowest.value:
            self._lowest = Point(turn, seconds, value)
        self._taken += 1
        if self._taken < self._each:
            return
        self._points.append(self._lowest)
        self._lowest, self._taken = None, 0
        if len(self._points) >= self._room:
            pairs = zip(self._points[::2], self._points[1::2], strict=True)
            self._points = [min(pair, key=lambda point: point.value) for pair in pairs]
            self._each *= 2

    @property
    def points(self) -> tuple[Point, ...]:
        """What is remembered, in order; what has not become a point yet is left out."""
        return tuple(self._points)


def lasting(points: Sequence[Point]) -> list[Point]:
    """Each point with the lowest value from there on: what was given back later is not in it."""
    found, lowest = [], float("inf")
    for point in reversed(points):
        lowest = min(lowest, point.value)
        found.append(Point(point.turn, point.seconds, lowest))
    return found[::-1]


def trend(points: Sequence[Point], least: float = 0.0) -> Trend:
    """Whether a series keeps growing, by more than `least` in the part that is judged."""
    if len(points) < ENOUGH:
        return Trend(False)
    judged = lasting(points)[max(2, int(len(points) * _WARM_UP)) :]
    third = len(judged) // 3
    early, middle, late = judged[:third], judged[third : len(judged) - third], judged[len(judged) - third :]
    first, second, last = (_mean(part) for part in (early, middle, late))
    before, now = second - first, last - second
    risen = judged[-1].value - judged[0].value
    if risen <= max(least, 0.0) or before <= 0 or now <= 0:
        return Trend(False, risen=risen)
    if now < _STILL * before or before < _ALREADY * now:
        return Trend(False, risen=risen)
    if judged[-1].value <= judged[-1 - max(1, third // 2)].value:  # it has come to rest
        return Trend(False, risen=risen)
    if risen < _ABOVE_NOISE * _noise(points[-len(judged) :]) or risen < _ABOVE_TEETH * _tooth(points[-len(judged) :]):
        return Trend(False, risen=risen)
    per_turn = _slope((point.turn, point.value) for point in judged)
    recent = judged[len(judged) // 2]  # turns come at changing speeds, and those to come are like the last
    seconds = judged[-1].seconds - recent.seconds
    per_second = per_turn * (judged[-1].turn - recent.turn) / seconds if seconds > 0 else 0.0
    return Trend(per_turn > 0 and per_second > 0, per_turn, per_second, risen, _is_straight(judged))


def _is_straight(points: Sequence[Point]) -> bool:
    """Whether each part rises about as fast as the others."""
    ends = [points[part * (len(points) - 1) // _PARTS] for part in range(_PARTS + 1)]
    if any(after.turn <= before.turn for before, after in itertools.pairwise(ends)):
        return False
    speeds = [(after.value - before.value) / (after.turn - before.turn) for before, after in itertools.pairwise(ends)]
    return min(speeds) > 0 and max(speeds) <= _ALIKE * min(speeds)


def _mean(points: Sequence[Point]) -> float:
    return sum(point.value for point in points) / len(points)


def _noise(points: Sequence[Point]) -> float:
    """How far neighbours lie apart beyond the slope: the median, so that single leaps do not count."""
    steps = [after.value - before.value for before, after in itertools.pairwise(points)]
    middle = median(steps)
    return median(abs(step - middle) for step in steps)


def _tooth(points: Sequence[Point]) -> float:
    """How far it falls, the second time: once may be a warm-up's end, twice is a saw, whose roots rise by chance."""
    falls = sorted(max(0.0, before.value - after.value) for before, after in itertools.pairwise(points))
    return falls[-2]


def _slope(pairs: Iterable[tuple[float, float]]) -> float:
    """The median of the slopes between all pairs of points (Theil and Sen): single leaps do not move it much."""
    known = list(pairs)
    slopes = [
        (value - other) / (at - before)
        for i, (at, value) in enumerate(known)
        for before, other in known[:i]
        if at > before
    ]
    return median(slopes) if slopes else 0.0
