from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitroom.core import Record, RecordFile
from fitroom.errors import SchemaError, UsageError
from tests.strategies import scalars


@given(st.lists(st.tuples(st.text(), st.dictionaries(st.text(st.characters(categories=["Ll"])), scalars)), max_size=5))
def test_what_is_appended_can_be_read(
    tmp_path_factory: pytest.TempPathFactory, happened: list[tuple[str, dict]]
) -> None:
    file = RecordFile(tmp_path_factory.mktemp("record") / "record.jsonl")
    written = []
    for kind, data in happened:
        data = {key: value for key, value in data.items() if key not in ("self", "kind")}
        written.append(file.append(kind, **data))
    file.close()
    record = Record.read(file.path)
    assert record.events == tuple(written)
    assert record.torn == 0


def test_a_killed_run_leaves_a_record_that_is_readable_to_its_last_whole_line(tmp_path: Path) -> None:
    # GIVEN a process that records without end
    path = tmp_path / "record.jsonl"
    code = f"""
from fitroom.core import RecordFile
file = RecordFile({str(path)!r})
n = 0
while True:
    n += 1
    file.append("step", number=n)
"""
    child = subprocess.Popen([sys.executable, "-c", code])
    while not path.exists() or path.stat().st_size < 10_000:
        assert child.poll() is None
    # WHEN it is killed
    child.send_signal(signal.SIGKILL)
    child.wait()
    # THEN nothing before the end is lost
    record = Record.read(path)
    assert [event.data["number"] for event in record.events] == list(range(1, len(record.events) + 1))
    assert record.torn <= 1


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_torn_last_line_is_skipped_and_the_next_run_appends_after_it(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "record.jsonl"
    file = RecordFile(path)
    file.append("first", number=1)
    file.append("second", number=2)
    file.close()
    path.write_bytes(path.read_bytes()[:-cut])
    again = RecordFile(path)
    again.append("third", number=3)
    again.close()
    record = Record.read(path)
    kinds = [event.kind for event in record.events]
    assert kinds[0] == "first"
    assert kinds[-1] == "third"
    assert record.torn == (1 if cut > 1 else 0)  # a lost line end alone tears nothing


def test_a_read_only_folder_is_said_once_and_stops_nothing(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("a file where a folder should be")
    with pytest.warns(RuntimeWarning, match="the training goes on without it"):
        file = RecordFile(blocker / "record.jsonl")
    file.append("step", number=1)  # no second warning: warnings are errors here
    file.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's always-full device")
def test_a_full_disk_is_said_once_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "record.jsonl").symlink_to("/dev/full")
    with pytest.warns(RuntimeWarning, match="No space left"):
        file = RecordFile(tmp_path / "record.jsonl")
    file.append("step", number=1)


@pytest.mark.parametrize(
    "text", ["", "hello", '{"schema":"fitroom/Record/2"}\n', '{"kind":"x","time":1.0,"data":{}}\n']
)
def test_what_is_not_a_record_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        Record.from_lines(text)


def test_a_missing_record_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        Record.read(tmp_path / "none.jsonl")


def test_events_are_found_by_kind(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "deep" / "record.jsonl")
    file.append("oom", step=3)
    file.append("rung", slices=2)
    file.close()
    assert [event.data for event in Record.read(file.path).of("rung")] == [{"slices": 2}]
