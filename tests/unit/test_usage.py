"""What a process uses, with as much to look at as there is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from fitroom.devices.usage import Counters, Usage, cores, rates


def test_rates_are_differences_and_never_negative() -> None:
    before = Counters(10.0, cpu=5.0, read=1000, sent=None)
    after = Counters(12.0, cpu=8.0, read=400, sent=7)
    assert rates(before, after) == {"cpu": 1.5, "read": 0.0}
    assert rates(after, after) == {}


def test_this_process_is_seen_at_work() -> None:
    usage = Usage(os.getpid())
    usage.look()
    until = os.times().user + 0.2
    while os.times().user < until:
        pass
    found = usage.look()
    assert 0.1 < found["cpu"] <= found["cores"] + 1
    assert found["rss"] > 10_000_000
    assert 0 < found["host"] <= found["host_limit"]
    assert usage.pids >= {os.getpid()}


def test_what_may_not_be_seen_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def denied(*_: object, **__: object) -> None:
        raise psutil.AccessDenied

    for name in ("io_counters", "children"):
        monkeypatch.setattr(psutil.Process, name, denied)
    usage = Usage(os.getpid(), tmp_path)  # and no /proc of the machine's
    usage.look()
    found = usage.look()
    assert {"read", "written", "received", "sent", "stalled"}.isdisjoint(found)
    assert found["rss"] > 0
    assert found["host_limit"] > 0


def test_what_a_process_did_before_it_was_seen_is_not_counted_at_once() -> None:
    usage = Usage(os.getpid())
    burns = "import os\nwhile sum(os.times()[:2]) < 1.5: pass\nprint('done', flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", burns], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        usage.find_family()
        usage._family = usage._family[:1]  # as it was before the child was started
        usage.look()
        child.stdout.readline()
        usage.look()
        usage.find_family()
        time.sleep(0.1)
        found = usage.look()
        assert child.pid in usage.pids
        child.communicate(b"\n")
    assert found["cpu"] <= found["cores"] + 1


@pytest.mark.parametrize("error", [RuntimeError, ValueError])
def test_a_strange_proc_is_no_reason_to_stop_looking(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    def strange(*_: object) -> None:
        raise error("/proc/1/io file was empty")

    monkeypatch.setattr(psutil.Process, "io_counters", strange)
    usage = Usage(os.getpid())
    usage.look()
    found = usage.look()
    assert found["rss"] > 0
    assert "read" not in found
    assert "cpu" in found


def test_a_process_that_is_gone_uses_nothing() -> None:
    usage = Usage(2**22 + 1)
    assert "rss" not in usage.look()
    assert "cpu" not in usage.look()


@pytest.mark.parametrize(
    ("files", "most"),
    [
        ({"cpu.max": "50000 100000"}, 0.5),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu.max": "50000"}, None),
        ({"cpu.max": "50000 0"}, None),
        ({"cpu/cpu.cfs_quota_us": "25000", "cpu/cpu.cfs_period_us": "100000"}, 0.25),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({}, None),
    ],
)
def test_a_containers_quota_of_cores_counts(tmp_path: Path, files: dict[str, str], most: float | None) -> None:
    for name, text in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert cores(tmp_path) == (most or len(os.sched_getaffinity(0)))


def test_without_pressure_figures_idle_time_for_disks_counts(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    usage = Usage(os.getpid(), tmp_path)
    (tmp_path / "proc/stat").write_text("cpu  1 2 3 4 500 0 0\n")
    usage.look()
    (tmp_path / "proc/stat").write_text("cpu  1 2 3 4 9500 0 0\n")
    assert usage.look()["stalled"] > 0
