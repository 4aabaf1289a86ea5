"""GPUs that are shared: who grows is noticed, and what is left is what may be used. NVML is played by a stand-in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fitroom.core import Event
from fitroom.devices import gpu_use
from fitroom.devices.gpu_use import GpuWatch
from fitroom.devices.meter import Meter
from fitroom.devices.timeline_file import TimelineFile
from fitroom.devices.watching import Watch
from fitroom.report.run_lines import line
from fitroom.units import GIB, MIB
from tests.unit.test_gpu import FakeNvml, NotSupportedError, nvml

__all__ = ["nvml"]  # a fixture

OTHER = os.getppid()  # a process that exists, and is not us


class SharedNvml(FakeNvml):
    """The first card is shared."""

    held = GIB
    tells = True
    other = OTHER

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[SimpleNamespace]:  # noqa: N802
        mine = SimpleNamespace(pid=os.getpid(), usedGpuMemory=4 * GIB)
        gone = SimpleNamespace(pid=2**22 + 5, usedGpuMemory=8 * GIB)  # another container's, or our own by another name
        other = SimpleNamespace(pid=self.other, usedGpuMemory=self.held)
        return [mine, gone, *([other] if self.held else [])] if handle == 0 else []

    def nvmlSystemGetProcessName(self, pid: int) -> str:  # noqa: N802
        return "/usr/bin/python3"

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> SimpleNamespace:  # noqa: N802
        if not self.tells:
            raise NotSupportedError
        return SimpleNamespace(gpu=93)

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:  # noqa: N802
        if not self.tells:
            raise NotSupportedError
        return 71


@pytest.fixture
def shared(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> SharedNvml:
    fake = SharedNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


def told(watch: Watch) -> list[str]:
    found = [Event.now(kind, **data) for kind, data in watch.look(None)]
    return [line(event) or "" for event in found]


def test_a_card_at_work_is_described(shared: SharedNvml) -> None:
    first, second = GpuWatch().look({os.getpid()})
    assert (first.use, first.temperature, first.taken, second.taken) == (0.93, 71, GIB, 0)
    assert [one.pid for one in first.others] == [OTHER]
    assert first.values()["gpu0_memory"] == GIB


def test_a_driver_that_tells_little_is_enough(shared: SharedNvml) -> None:
    shared.tells = False
    first, _ = GpuWatch().look({os.getpid()})
    assert (first.use, first.temperature) == (None, None)
    assert "gpu0_use" not in first.values()


def test_the_driver_is_asked_for_once_and_closed(shared: SharedNvml) -> None:
    watch = GpuWatch()
    watch.look(set())
    watch.look(set())
    assert shared.closed == 0
    watch.close()
    assert shared.closed == 1
    assert watch.look(set()) == []


def test_a_name_of_any_bytes_is_told_in_plain_letters(shared: SharedNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "nvmlSystemGetProcessName", lambda pid: "ev\x1b[2Jil")
    assert [one.name for one in GpuWatch().look(set())[0].others] == ["ev\N{REPLACEMENT CHARACTER}[2Jil"]
    monkeypatch.setattr(shared, "nvmlSystemGetProcessName", lambda pid: b"\xff".decode())
    assert [one.name for one in GpuWatch().look(set())[0].others] == ["?"]


def test_a_driver_that_has_lost_a_card_is_as_none(shared: SharedNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(index: int) -> int:
        raise NotSupportedError

    monkeypatch.setattr(shared, "nvmlDeviceGetHandleByIndex", lost)
    assert told(Watch(os.getpid(), TimelineFile(None))) == []
    assert gpu_use.left_by_others(0, set()) is None


def test_without_a_driver_there_is_nothing_to_watch(tmp_path: Path) -> None:
    watch = Watch(os.getpid(), TimelineFile(None))
    assert told(watch) == []
    assert watch.cards == []
    assert gpu_use.left_by_others(0, set()) is None


def test_another_process_that_grows_is_named_and_the_budget_follows(shared: SharedNvml) -> None:
    watch = Watch(os.getpid(), TimelineFile(None))
    assert told(watch) == []  # it was there before us
    shared.held += 100 * MIB
    assert told(watch) == []  # its own affair
    shared.held = 5 * GIB
    (words,) = told(watch)
    assert words == (
        f"GPU:0 is shared: process {OTHER} (python3) took 4 GiB more and holds 5 GiB; the budget is now 19 GiB"
    )
    assert told(watch) == []
    shared.held = 0
    (words,) = told(watch)
    assert words.endswith(f"process {OTHER} (python3) gave 5 GiB back and holds 0 B; the budget is now 24 GiB")


def test_a_process_of_our_own_is_no_neighbour(shared: SharedNvml) -> None:
    watch = Watch(os.getpid(), TimelineFile(None))
    shared.held = 0
    watch.look(None)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as worker:
        shared.other, shared.held = worker.pid, 5 * GIB
        assert told(watch) == []
        assert watch.cards[0].taken == 0
        worker.communicate(b"\n")


def test_a_budget_that_was_asked_for_stands_while_it_can_be_had(shared: SharedNvml) -> None:
    watch = Watch(os.getpid(), TimelineFile(None), budget=8 * GIB)
    watch.look(None)
    shared.held = 3 * GIB
    ((_, data),) = watch.look(None)
    assert data["budget_mib"] == 8 * 1024
    shared.held = 20 * GIB
    ((_, data),) = watch.look(None)
    assert data["budget_mib"] == 4 * 1024


def test_the_guards_meter_gives_what_others_leave(shared: SharedNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    info: Any = {"current": 2 * GIB, "peak": 2 * GIB}
    monkeypatch.setattr(Meter, "_infos", lambda self: [info])
    meter = Meter("GPU:0", 24 * GIB)
    shared.held = 0
    assert meter.free() == 22 * GIB
    shared.held = 10 * GIB
    assert meter.free() == 12 * GIB
    shared.held = 23 * GIB
    assert meter.free() == 0
    assert Meter("CPU:0", 3 * GIB).free() == GIB
