"""`fitroom top` without a run to look at: what it makes of a folder, and how it is drawn."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from rich.live import Live

from fitroom.commands import main
from fitroom.commands.top_view import looking, of_run
from fitroom.core import Record, RecordFile
from fitroom.devices import timeline_file
from fitroom.devices.timeline import point
from fitroom.devices.timeline_file import TimelineFile
from fitroom.report.account import Again, account
from fitroom.report.sparks import bar, resampled, sparkline, split_bar
from fitroom.report.top import Picture
from fitroom.supervisor import run_folder
from fitroom.units import GIB, MIB
from tests.conftest import Run


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


def test_a_record_of_another_version_is_told_of_and_nothing_is_claimed(folder: Path) -> None:
    (folder / run_folder.RECORD).write_text('{"schema":"fitroom/Record/9"}\n')
    view = of_run(folder)
    assert (view.in_force, view.survived) == ((), ())
    assert view.memory, "the timeline can still be read"
    assert view.notes[0].startswith("record.jsonl: Not this release's record. Received: ")
    (folder / timeline_file.NAME).write_text("nonsense")
    assert of_run(folder).notes[1].startswith("timeline.jsonl: Not a timeline. Received: ")


def test_a_timeline_cut_anywhere_is_shown_as_far_as_it_goes(folder: Path) -> None:
    path = folder / timeline_file.NAME
    whole = path.read_bytes()
    for size in range(0, len(whole), len(whole) // 40):
        path.write_bytes(whole[:size])
        of_run(folder)
    path.write_bytes(whole[: len(whole) // 2])
    assert of_run(folder).memory


@pytest.mark.parametrize("height", [1, 6, 12, 60])
def test_a_low_window_says_that_there_is_more(folder: Path, height: int) -> None:
    console = Console(width=80, height=height, file=StringIO(), force_terminal=True)
    picture = Picture(of_run(folder), is_cut=True)
    with Live(picture, console=console, screen=True, auto_refresh=False):
        lines = console.render_lines(picture, console.options)
    assert len(lines) <= height
    is_told = "more lines: make the window taller" in console.file.getvalue()  # type: ignore[attr-defined] # a StringIO
    assert is_told == (height < 60)


def test_the_split_of_time_is_in_one_line_where_there_is_room(folder: Path) -> None:
    for width in (64, 80, 140):
        (line,) = [one for one in drawn(folder, width).splitlines() if one.startswith("time")]
        assert "steps 50%  waiting for data 30%  other 20%" in line


def test_names_are_whole_in_a_narrow_window(folder: Path) -> None:
    lines = drawn(folder, 32).splitlines()
    assert max(map(len, lines)) <= 32
    assert {"device", "process", "network"} <= {line.split()[0] for line in lines if line.strip()}


def test_names_do_not_drive_the_terminal(tmp_path: Path, folder: Path) -> None:
    named = folder.rename(tmp_path.parent / "x\x1b[2J\x9b2Jname\n")
    record = RecordFile(named / run_folder.RECORD)
    record.append("neighbour", device="GPU:0", pid=9, name="a\x1b]0;b\x07", used=GIB, before=0, budget_mib=1)
    record.close()
    text = drawn(named, 80)
    assert "\N{REPLACEMENT CHARACTER}[2J" in text
    assert all(one.isprintable() for line in text.split("\n") for one in line)


def test_a_look_soon_after_another_counts_for_as_little_as_it_lasted(tmp_path: Path) -> None:
    file = TimelineFile(tmp_path / timeline_file.NAME)
    for moment, share, rate in ((0.0, 0.5, 2.0), (1.0, 0.5, 2.0), (2.0, 0.5, 2.0), (2.01, 50.0, 200.0)):
        file.add(point(1e9 + moment, {"made": 4, "steps": rate, "stepping": share, "waiting": 0.0}))
    file.close()
    view = of_run(tmp_path)
    assert view.split == pytest.approx((0.75, 0.0, 0.25), abs=0.01)
    assert view.use[0].text == "2.99 a second, 4 in all"


def test_figures_of_long_ago_are_not_shown_as_those_of_now(tmp_path: Path) -> None:
    file = TimelineFile(tmp_path / timeline_file.NAME)
    held = run_folder.hold(tmp_path)
    file.add(point(time.time() - 750, {"rss": GIB}))
    assert of_run(tmp_path).notes[0].startswith("last measured 0:12:3")
    file.add(point(time.time(), {"rss": GIB}))
    assert of_run(tmp_path).notes == ()
    os.close(held)
    file.close()


def test_a_training_that_no_longer_waits_is_told_that_it_did(folder: Path) -> None:
    held = run_folder.hold(folder)
    assert of_run(folder).waits[0].startswith("map: ")
    file = TimelineFile(folder / timeline_file.NAME)
    for second in range(300, 340):
        file.add(point(1e9 + second, {"stepping": 0.9, "waiting": 0.01}))
    file.close()
    assert of_run(folder).waits[0].startswith("earlier, map: ")
    os.close(held)
    assert of_run(folder).waits[0].startswith("map: "), "over the whole run it did"


def test_a_run_is_found_by_its_folder_wherever_one_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert looking(".")().title == folder.name


def test_a_name_that_no_folder_can_have_is_no_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "x" * 300]) == 2
    assert "No such run. Received: xxx" in capsys.readouterr().err


def test_a_run_begins_while_somebody_looks_whether_it_has(tmp_path: Path) -> None:
    (tmp_path / run_folder.RECORD).touch()
    looks = os.open(tmp_path / run_folder.RECORD, os.O_RDONLY)
    fcntl.flock(looks, fcntl.LOCK_SH)  # as `is_held` does, for a moment
    threading.Timer(0.05, os.close, [looks]).start()
    os.close(run_folder.hold(tmp_path))


def test_a_terminal_without_blocks_shows_something_else(python: Run, folder: Path) -> None:
    done = python("-m", "fitroom", "top", str(folder), "--once", env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert "???" in done.stdout


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


@pytest.mark.parametrize("code", [0, 1])
def test_a_run_that_lacked_no_memory_is_told_what_it_waited_for(tmp_path: Path, code: int) -> None:
    record = RecordFile(tmp_path / run_folder.RECORD)
    record.append("waiting", what="map", share=0.4, evidence="40% of the time no batch was ready", advice="cache()")
    record.close()
    text = account(Record.read(tmp_path / run_folder.RECORD), code, tmp_path, Again("fitroom run train.py"))
    assert text.endswith("\n  waited  40% of the time no batch was ready. Try: cache()")


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


def test_no_peak_is_lost_where_a_clock_was_set_back() -> None:
    assert resampled([(10, 10, 1), (9.5, 9.5, 2), (11, 11, 9), (12, 12, 3)], 4) == (9, 9, 3, 3)
