"""A training watched from beside it, by what it tells of itself."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from fitroom.devices import watching
from fitroom.devices.progress import Progress
from fitroom.devices.timeline_file import TimelineFile
from fitroom.devices.waiting import Pipeline
from fitroom.devices.watching import Watch, fullest

MAP = Pipeline("Map", 0.5, 0.99, is_ahead=True)
GENERATOR = Pipeline("Generator", 0.06, 0.99, is_python=True, is_ahead=True)


@pytest.mark.parametrize("every", [0.05, 1.0, 20.0])
def test_who_waits_is_told_while_it_trains_however_often_it_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, every: float
) -> None:
    clock = SimpleNamespace(now=100.0, monotonic=lambda: clock.now, time=lambda: clock.now)
    monkeypatch.setattr(watching, "time", clock)
    watch, told = Watch(os.getpid(), TimelineFile(None)), []
    for look in range(round(max(30.0, 3 * every) / every)):
        clock.now += every
        told += watch.look(Progress(look, 0.8 * every * look, 0.2 * every * look, pipeline=GENERATOR))
    ((kind, data),) = told
    assert (kind, data["what"]) == ("waiting", "one worker")
    assert data["share"] == pytest.approx(0.8)
    watch.let_go()


@pytest.mark.parametrize(("waited", "what"), [(0.1, None), (0.3, "one worker")])
def test_what_callbacks_take_counts_as_time_that_it_did_not_wait(
    monkeypatch: pytest.MonkeyPatch, waited: float, what: str | None
) -> None:
    clock = SimpleNamespace(now=100.0, monotonic=lambda: clock.now, time=lambda: clock.now)
    monkeypatch.setattr(watching, "time", clock)
    watch, told = Watch(os.getpid(), TimelineFile(None)), []
    for look in range(30):
        clock.now += 1.0
        told += watch.look(Progress(look, waited * look, 0.1 * look, pipeline=GENERATOR))
    found = watch.waits_for()
    assert (None if found is None else found.what) == what
    assert [data["what"] for _, data in told] == ([] if what is None else [what])
    watch.let_go()


def test_the_time_of_tracing_is_no_time_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0, monotonic=lambda: clock.now, time=lambda: clock.now)
    monkeypatch.setattr(watching, "time", clock)
    watch = Watch(os.getpid(), TimelineFile(None))
    for steps, waited in ((0, 0.0), (1, 0.0), (3, 1.0)):
        clock.now += 1.0 if steps else 9.0
        watch.look(Progress(steps, waited, 0.0, pipeline=GENERATOR))
    found = watch.waits_for()
    assert found is not None
    assert found.share == pytest.approx(1.0)
    watch.let_go()


def test_a_step_that_takes_longer_than_a_look_has_waited_for_as_long_as_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0, monotonic=lambda: clock.now, time=lambda: clock.now)
    monkeypatch.setattr(watching, "time", clock)
    watch = Watch(os.getpid(), TimelineFile(None))
    for look in range(60):
        clock.now += 1.0
        watch.look(Progress(look // 10, 1.0 * (look // 10), 9.0 * (look // 10), pipeline=GENERATOR))
    assert watch.waits_for() is None
    watch.let_go()


def test_the_pipeline_of_an_earlier_training_is_forgotten() -> None:
    assert fullest([]) is None
    assert fullest([MAP, Pipeline("Prefetch", 0.001, 1.0)]) == MAP  # its stages have gone, at the end of its data
    watch = Watch(os.getpid(), TimelineFile(None))
    for number, pipeline in enumerate([MAP] * 5 + [GENERATOR] * 10):
        watch.look(Progress(number, 0.9 * number, 0.1 * number, pipeline=pipeline))
    assert fullest(watch._pipelines) == GENERATOR
    watch.let_go()
