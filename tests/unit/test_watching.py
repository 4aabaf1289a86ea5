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


def test_the_pipeline_of_an_earlier_training_is_forgotten() -> None:
    assert fullest([]) is None
    assert fullest([MAP, Pipeline("Prefetch", 0.001, 1.0)]) == MAP  # its stages have gone, at the end of its data
    watch = Watch(os.getpid(), TimelineFile(None))
    for number, pipeline in enumerate([MAP] * 5 + [GENERATOR] * 10):
        watch.look(Progress(number, 0.9 * number, 0.1 * number, pipeline=pipeline))
    assert fullest(watch._pipelines) == GENERATOR
    watch.let_go()
