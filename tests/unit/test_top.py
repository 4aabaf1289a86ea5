"""`fitroom top` without a run to look at: what it makes of a folder, and how it is drawn."""

from __future__ import annotations

import os
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from fitroom.commands import main
from fitroom.commands.top_view import looking, of_run
from fitroom.core import Record, RecordFile
from fitroom.devices import timeline_file
from fitroom.devices.timeline import point
from fitroom.devices.timeline_file import TimelineFile
from fitroom.report.run import Again, account
from fitroom.report.sparks import bar, resampled, sparkline, split_bar
from fitroom.report.top import Picture
from fitroom.supervisor import run_folder
from fitroom.units import GIB, MIB


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run with everything in it."""
    record = RecordFile(tmp_path / run_folder.RECORD)
    record.append("oom", phase="forward", samples=64)
    record.append("rung", remedy="micro_batch", size=16, exact=True, of="train")
    record.append("death", code=-9, resource="host_memory", face="sigkill", evidence="oom_kill", steps=3)
    record.append("restart", budget_mib=512, slices=1, input=True, resumes=True)
    record.append("rung", remedy="recompute", parts=3, exact=True, of="train")
    leak = {"cause": "retained_tensors", "where": "train.py:9", "what": "kept holds 9 tensors", "fix": "keep numbers"}
    record.append("leak", **leak, per="step", bytes_per=3 * MIB)
    record.append("waiting", what="map", share=0.4, evidence="40% of the time no batch was ready", advice="cache()")
    record.append("neighbour", device="GPU:0", pid=77, name="python", used=3 * GIB, before=0, budget_mib=20000)
    record.close()
    file = TimelineFile(tmp_path / timeline_file.NAME)
    for second in range(300):
        values = {"device": 100 * MIB, "device_peak": (100 + second) * MIB, "device_limit": 500 * MIB}
        values |= {"rss": GIB, "host": 7 * GIB, "host_limit": 23 * GIB, "cpu": 1.5, "cores": 2.0, "read": MIB}
        values |= {"written": 0, "received": 0, "sent": 0, "steps": 4.0, "made": 4 * second}
        values |= {"stepping": 0.5, "waiting": 0.3, "gpu0_use": 0.4, "gpu0_temperature": 71}
        values |= {"gpu0_memory": 11 * GIB, "gpu0_limit": 24 * GIB, "gpu0_others": 3 * GIB}
        file.add(point(1e9 + second, values))
    file.close()
    return tmp_path


def drawn(folder: Path, width: int) -> str:
    console = Console(width=width, record=True, force_terminal=False, file=StringIO())
    console.print(Picture(of_run(folder)))
    return console.export_text()


@pytest.mark.parametrize("width", [40, 80, 140])
def test_everything_is_there_at_any_width(folder: Path, width: int) -> None:
    text = drawn(folder, width)
    assert max(map(len, text.splitlines())) <= width
    words = " ".join(text.split())
    for expected in ("device", "GPU:0", "process", "host", "71 °C", "waiting for data 30%", "cache()", "process 77"):
        assert expected in words or width == 40, expected
    assert "█" in text


def test_only_what_is_in_force_since_the_last_start_is_shown(folder: Path) -> None:
    view = of_run(folder)
    assert any("activations computed again" in one for one in view.in_force)
    assert not any("slices" in one for one in view.in_force)
    assert any("512 MiB for tensors" in one for one in view.in_force)
    assert view.survived == ("1 × out of memory in a step, without a trace", "1 × the death of its process, of memory")
    assert view.leaks == ("train.py:9: kept holds 9 tensors; 3 MiB more with each step. To do: keep numbers",)
    assert view.memory[0].peak == 399 * MIB
    assert view.split == pytest.approx((0.5, 0.3, 0.2))


def test_a_run_with_nothing_in_it_yet_can_be_looked_at(tmp_path: Path) -> None:
    (tmp_path / run_folder.RECORD).touch()
    held = run_folder.hold(tmp_path)
    view = of_run(tmp_path)
    assert (view.is_running, view.notes) == (True, ("nothing was measured yet",))
    os.close(held)
    assert not of_run(tmp_path).is_running


@pytest.mark.parametrize("damage", ["", "nonsense\n", '{"schema":"fitroom/timeline/9"}\n', "{\n" * 5])
def test_a_damaged_timeline_is_no_reason_to_show_nothing(folder: Path, damage: str) -> None:
    (folder / timeline_file.NAME).write_text(damage)
    assert of_run(folder).memory == ()


def test_no_such_run_is_told_with_those_there_are(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = folder / "work"
    (home / ".fitroom/train-1").mkdir(parents=True)
    (home / ".fitroom/train-1" / run_folder.RECORD).touch()
    monkeypatch.chdir(home)
    assert main(["top", "train-2"]) == 2
    assert "Received: train-2. Expected: a run's folder, or one of train-1." in capsys.readouterr().err
    assert main(["top", "train-1", "--once"]) == 0
    assert "nothing was measured yet" in capsys.readouterr().out


def test_a_run_that_begins_while_nothing_ran_is_shown_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    look = looking(None)
    assert look().title == "no run under way here"
    new = tmp_path / ".fitroom/train-1"
    new.mkdir(parents=True)
    held = run_folder.hold(new)
    assert (look().title, look().is_running) == ("train-1", True)
    os.close(held)
    assert (look().title, look().is_running) == ("train-1", False)


def test_the_account_of_a_run_tells_what_it_waited_for_and_with_whom_it_shared(folder: Path) -> None:
    record = Record.read(folder / run_folder.RECORD)
    text = account(record, 0, folder, Again("fitroom run train.py"))
    assert "waited    40% of the time no batch was ready. Try: cache()" in text
    assert "GPU:0 was shared with process 77 (python)" in text


def test_bars_and_sparklines_are_as_long_as_they_should_be() -> None:
    assert bar(0.5, 4) == "██░░"
    assert bar(7.0, 3) == "███"
    assert split_bar((0.5, 0.25, 0.25), 4) == "██▓░"
    assert split_bar((1 / 3, 1 / 3, 1 / 3), 10) == "███▓▓▓▓░░░"
    assert sparkline((0, 5, 10), 3, 10) == "▁▅█"
    assert sparkline((0, 0, 9, 0), 2) == "▁█"  # of neighbours, the larger one
    assert sparkline((None, 1), 5) == " █"
    assert sparkline((), 5) == ""


def test_resampled_values_stand_for_the_time_before_them() -> None:
    assert resampled([], 4) == ()
    assert resampled([(5, 5, 1)], 4) == (1,)
    assert resampled([(0, 0, 1), (1, 1, 2), (2, 2, 3), (3, 3, 4), (4, 4, 5)], 4) == (2, 3, 4, 5)
    assert resampled([(0, 0, 1), (8, 8, 9)], 4) == (9, 9, 9, 9)
