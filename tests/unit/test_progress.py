"""How far a training is, as it is told to who watches."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fitroom.core import Record
from fitroom.devices.progress import Processes, Progress, ProgressFile
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
    assert Processes(tmp_path / "none").together() is None
    long = Progress(10, 1.5, 2.5, "CPU:0", 1, 2, 3, Pipeline("Map", 0.1, 0.9))
    file = ProgressFile(tmp_path / "progress", 7)
    known = Processes(tmp_path / "progress")
    for told in (long, Progress(11)):
        file.write(told)
        assert Processes(tmp_path / "progress").together() == known.together() == told
    (tmp_path / "progress/7.json").write_text('{"steps": 1')  # being written
    assert Processes(tmp_path / "progress").together() is None
    assert known.together() == Progress(11)


def test_processes_that_train_beside_each_other_are_counted_together(tmp_path: Path) -> None:
    known, seen = Processes(tmp_path), []
    first, second = ProgressFile(tmp_path, 1), ProgressFile(tmp_path, 2)
    for number in range(1, 4):
        for file, limit in ((first, 1), (second, 2)):
            file.write(Progress(10 * number * limit, 0.5 * number, 1.0 * number, "CPU:0", 1, 1, limit))
            path = tmp_path / f"{limit}.json"
            os.utime(path, ns=(0, number * 10**9 + limit))
            found = known.together()
            assert found is not None
            seen.append((found.steps, found.waited, found.stepped, found.limit))
    assert seen[1::2] == [(30 * number, 1.0 * number, 2.0 * number, 2) for number in (1, 2, 3)]
    assert [one[0] for one in seen] == sorted(one[0] for one in seen)


def test_a_process_of_long_ago_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Processes(tmp_path)
    ProgressFile(tmp_path, 1).write(Progress(3))
    os.utime(tmp_path / "1.json", ns=(0, 1))
    assert known.together() == Progress(3)
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: pytest.fail("it was read again"))
    assert known.together() == Progress(3)


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
    assert Processes(tmp_path / "progress").together() == Progress(20_000)
