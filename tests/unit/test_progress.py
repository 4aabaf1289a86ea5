"""How far a training is, as it is told to who watches."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fitroom.core import Record
from fitroom.devices import progress as files
from fitroom.devices.progress import Progress, ProgressFile
from fitroom.devices.waiting import Pipeline
from fitroom.training import log, progress
from fitroom.training.progress import Asking, Counting, Written


class Allocator:
    """Stands in for a device's counters."""

    device, limit = "CPU:0", 1000

    def __init__(self) -> None:
        self.now = self.highest = 0

    def step(self, peak: int, after: int) -> None:
        self.highest, self.now = max(self.highest, peak), after

    def both(self) -> tuple[int, int]:
        return self.now, self.highest

    def reset(self) -> None:
        self.highest = self.now


def test_a_file_holds_the_last_that_was_written(tmp_path: Path) -> None:
    assert files.newest(tmp_path / "none") is None
    long = Progress(10, 1.5, 2.5, "CPU:0", 1, 2, 3, Pipeline("Map", 0.1, 0.9))
    file = ProgressFile(tmp_path / "progress", 7)
    for told in (long, Progress(11)):
        file.write(told)
        assert files.newest(tmp_path / "progress") == told
    (tmp_path / "progress/7.json").write_text('{"steps": 1')  # being written
    assert files.newest(tmp_path / "progress") is None


def test_everyone_who_asks_gets_every_steps_peak() -> None:
    counting, device = Counting(), Allocator()
    counting.meter = device  # type: ignore[assignment] # a stand-in
    often, seldom = Asking(counting), Asking(counting)
    counting.watched_by(often)
    counting.watched_by(seldom)
    seen = []
    for peak in (100, 900, 300):
        device.step(peak, after=50)
        counting.made_step()
        seen.append(often.now().peak)
    assert seen == [100, 900, 300]
    assert (seldom.now().peak, seldom.now().in_use, often.now().steps) == (900, 50, 3)


def test_who_does_not_want_peaks_leaves_the_counter_alone() -> None:
    counting, device = Counting(), Allocator()
    counting.meter = device  # type: ignore[assignment] # a stand-in
    device.step(900, after=50)
    counting.made_step()
    assert device.highest == 900
    assert Asking(counting).now().peak == 900


def test_a_look_at_a_strange_iterator_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Strange:
        @property
        def _iterator_resource(self) -> Any:
            raise RuntimeError("on purpose")

    counting, strange = Counting(), Strange()
    counting.made_step(waited=1.0, iterator=strange)
    assert Asking(counting).now().pipeline is None
    counting.made_step(waited=1.0, iterator=(number for number in range(3)))  # which cannot be referred to weakly
    assert Asking(counting).now().pipeline is None


def test_the_record_of_a_long_run_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(log, "time", clock)
    monkeypatch.setattr(progress, "time", clock)
    monkeypatch.setattr(log, "counting", Counting())
    monkeypatch.setattr(log, "written", Written(log.counting))
    monkeypatch.setattr(log, "_progress", type("Fresh", (), dict(vars(log._Progress))))
    monkeypatch.setenv("FITROOM_RUN", "{}")
    monkeypatch.setenv("FITROOM_RECORD", str(tmp_path / "record.jsonl"))
    told = log.Log()
    told.begins()
    for _ in range(20_000):
        clock.now += 1.0
        told.made_step()
    steps = [event.data["steps"] for event in Record.read(tmp_path / "record.jsonl").of("progress")]
    assert steps[:50] == list(range(1, 51))  # each second at first
    assert len(steps) < 700
    assert steps[-1] > 0.98 * 20_000  # type: ignore[operator] # numbers
    (file,) = (tmp_path / "progress").iterdir()
    assert file.stat().st_size == 1024
    assert files.newest(tmp_path / "progress") == Progress(20_000)
