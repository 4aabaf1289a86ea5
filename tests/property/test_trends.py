"""What grows is told from what only looks so, whatever the size, the noise and the length."""

from __future__ import annotations

import math
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from fitroom.leaks.trends import ENOUGH, Point, Series, lasting, trend

LENGTHS = st.integers(30, 3000)
SEEDS = st.integers(0, 2**32)
SCALES = st.floats(1e3, 1e8)


def series(values: list[float]) -> tuple[Point, ...]:
    found = Series()
    for turn, value in enumerate(values):
        found.add(turn, turn * 0.01, value)
    return found.points


def noise(seed: int, length: int, scale: float) -> list[float]:
    generator = random.Random(seed)
    return [generator.uniform(-scale, scale) for _ in range(length)]


@settings(deadline=None)
@given(length=LENGTHS, slope=SCALES, seed=SEEDS, base=st.floats(0, 1e9))
def test_a_slope_is_found_through_noise(length: int, slope: float, seed: int, base: float) -> None:
    shaking = noise(seed, length, slope * length / 40)
    found = trend(series([base + slope * turn + shaking[turn] for turn in range(length)]))
    assert found.grows
    assert math.isclose(found.per_turn, slope, rel_tol=0.25)
    assert math.isclose(found.per_second, slope * 100, rel_tol=0.25)


@settings(deadline=None)
@given(length=LENGTHS, height=SCALES, seed=SEEDS, rest=st.floats(0.02, 0.5))
def test_a_plateau_is_no_growth(length: int, height: float, seed: int, rest: float) -> None:
    """Memory fills for some of the time, and is full then: a shuffle buffer, a cache."""
    shaking = noise(seed, length, height / 200)
    full = max(1, int(length * rest))
    values = [height * min(1.0, turn / full) + shaking[turn] for turn in range(length)]
    assert not trend(series(values), least=height / 50).grows


@settings(deadline=None)
@given(length=LENGTHS, height=SCALES, tau=st.floats(0.02, 0.2))
def test_what_settles_is_no_growth(length: int, height: float, tau: float) -> None:
    values = [height * (1 - math.exp(-turn / (tau * length))) for turn in range(length)]
    assert not trend(series(values), least=height / 1000).grows


@settings(deadline=None)
@given(length=LENGTHS, height=SCALES, teeth=st.integers(3, 40), phase=st.floats(0, 1))
def test_a_saw_is_no_growth(length: int, height: float, teeth: int, phase: float) -> None:
    values = [height * ((turn * teeth / length + phase) % 1.0) for turn in range(length)]
    assert not trend(series(values)).grows


@settings(deadline=None)
@given(length=LENGTHS, scale=SCALES, seed=SEEDS)
def test_noise_is_no_growth(length: int, scale: float, seed: int) -> None:
    assert not trend(series([1e9 + one for one in noise(seed, length, scale)]), least=2 * scale).grows


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e9), max_size=ENOUGH - 1))
def test_nothing_is_said_before_there_is_evidence(values: list[float]) -> None:
    assert not trend(series(values)).grows


@settings(deadline=None)
@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=500))
def test_a_series_keeps_few_points_and_its_lowest(values: list[float]) -> None:
    points = series(values)
    assert len(points) < 64
    assert [point.turn for point in points] == sorted({point.turn for point in points})
    if len(values) < 64:
        assert [point.value for point in points] == values
    assert all(before.value <= after.value for before, after in zip(lasting(points), lasting(points)[1:], strict=False))


@settings(deadline=None)
@given(length=LENGTHS, slope=SCALES, seed=SEEDS)
def test_one_speed_is_told_from_a_warm_up_that_slows_down(length: int, slope: float, seed: int) -> None:
    shaking = noise(seed, length, slope * length / 400)
    assert trend(series([slope * turn + shaking[turn] for turn in range(length)])).is_straight
    slowing = [slope * length * math.log1p(9 * turn / length) for turn in range(length)]
    assert not trend(series(slowing)).is_straight
