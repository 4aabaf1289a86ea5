"""At which sizes a step is recorded, by a clock of our own."""

from __future__ import annotations

from collections import Counter

import pytest

from fitroom.devices import pocket
from fitroom.estimator.climbing import climb, climb_compiled
from fitroom.estimator.recorder import Taken
from fitroom.units import MIB


def climbed(first: float, each: float, *, once: float = 0.0, peak: int = MIB) -> list[int]:
    """The sizes for a step that takes `each` second a sample, after a first one; `once` is what reading it takes."""
    times, sizes = [0.0], []
    taken = [Taken(0, first)]
    for size in climb(taken, lambda: sum(times)):
        sizes.append(size)
        times.append(once + each * size)
        taken.append(Taken(pocket.use().current + peak * size, each * size))
    return sizes


def test_quick_steps_are_recorded_at_all_sizes_and_the_largest_ones_often() -> None:
    sizes = climbed(first=10.0, each=0.001)
    assert sizes[:5] == [4, 8, 16, 32, 64]
    assert Counter(sizes) == {4: 1, 8: 1, 16: 4, 32: 4, 64: 4}


def test_slow_steps_are_recorded_up_to_16_samples_and_no_further() -> None:
    assert max(climbed(first=6.0, each=0.3)) == 16


def test_where_time_is_short_16_samples_come_right_after_the_first_ones() -> None:
    assert climbed(first=1.0, each=1.0) == [4, 16]


@pytest.mark.parametrize("once", [0.0, 0.1])
def test_recordings_stay_within_their_time(once: float) -> None:
    sizes = climbed(first=2.0, each=0.01, once=once)
    assert sum(once + 0.01 * size for size in sizes) <= 1.4 * 2.0 + 1e-9
    assert len(sizes) > 5


def test_where_little_time_is_left_smaller_sizes_are_recorded_again() -> None:
    # GIVEN a step at 16 that leaves no time for another one of that size
    sizes = climbed(first=0.25, each=0.01)
    # THEN smaller ones are taken once more
    assert sizes[:3] == [4, 8, 16]
    assert sizes[3:]
    assert 16 not in sizes[3:]


def test_large_steps_end_the_climb() -> None:
    assert max(climbed(first=100.0, each=0.001, peak=100 * MIB)) == 8


def compiled(first: float, each: float, *, once: float = 0.0, peak: int = MIB) -> list[int]:
    """The sizes for a step that XLA compiled in `first` seconds, and that takes `once` beside `each` sample's."""
    sizes, taken = [], [Taken(0, first)]
    for size in climb_compiled(taken):
        sizes.append(size)
        taken.append(Taken(pocket.use().current + peak * size, once + each * size))
    return sizes


def test_what_xla_compiles_is_recorded_at_few_sizes_each_a_second_time() -> None:
    assert compiled(first=10.0, each=1e-5) == [8, 512, 512, 1024, 1024]


def test_what_xla_compiles_takes_no_more_than_its_room() -> None:
    assert compiled(first=1000.0, each=1e-5, peak=8 * MIB) == [8, 64, 64, 128, 128]


def test_slow_steps_that_xla_compiled_stay_small() -> None:
    assert compiled(first=1.0, each=1.0) == [8, 16, 16]


def test_the_time_that_every_step_takes_does_not_keep_xlas_sizes_small() -> None:
    # GIVEN a step that takes as long with 8 samples as with 100
    sizes = compiled(first=1.0, each=1e-4, once=0.02)
    # THEN the second size is chosen by what the first one has shown
    assert sizes[-1] > 4 * sizes[1]
