"""How long steps of plain Keras' wait, which do not tell."""

from __future__ import annotations

import pytest

from fitroom.devices.waiting import Pipeline
from fitroom.training.plain_waits import PlainWaits


def ahead(seconds: float, empty: float | None) -> Pipeline:
    return Pipeline("Map", seconds, 0.9, is_ahead=True, empty=empty)


def test_nothing_is_known_without_a_pipeline() -> None:
    assert PlainWaits().of(0.1) == 0.0


def test_who_finds_a_batch_ready_has_not_waited() -> None:
    waits = PlainWaits()
    waits.saw(ahead(0.5, empty=0.0))
    assert waits.of(0.1) == 0.0


def test_a_pipeline_a_little_slower_than_a_step_costs_a_little() -> None:
    waits = PlainWaits()
    waits.saw(ahead(0.11, empty=0.0))
    waits.of(0.10)
    for _ in range(50):
        waits.saw(ahead(0.11, empty=1.0))
        assert waits.of(0.11) == pytest.approx(0.01)


def test_where_no_batch_was_ever_ready_the_step_is_all_waiting() -> None:
    waits = PlainWaits()
    waits.saw(ahead(1.0, empty=1.0))
    assert waits.of(1.1) == 1.1


def test_batches_that_nobody_makes_ahead_are_waited_for() -> None:
    waits = PlainWaits()
    waits.saw(Pipeline("Map", 0.02, 0.9))
    assert waits.of(0.1, steps=3) == pytest.approx(0.06)
    assert waits.of(0.01) == 0.01  # no longer than it took


def test_where_it_does_not_show_whether_one_was_ready_the_time_to_make_one_tells() -> None:
    waits = PlainWaits()
    waits.saw(ahead(0.02, empty=None))
    assert waits.of(0.1) == 0.0
    waits.saw(ahead(0.2, empty=None))
    assert waits.of(0.2) == pytest.approx(0.1)
