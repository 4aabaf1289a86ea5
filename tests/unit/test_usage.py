"""What a process uses, with as much to look at as there is."""

from __future__ import annotations

import os
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


def test_a_process_that_is_gone_uses_nothing() -> None:
    usage = Usage(2**22 + 1)
    assert "rss" not in usage.look()
    assert "cpu" not in usage.look()


@pytest.mark.parametrize(
    ("files", "most"),
    [
        ({"cpu.max": "50000 100000"}, 0.5),
        ({"cpu.max": "max 100000"}, None),
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
