"""Checkpoints on disk: whole or not there at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fitroom.training import checkpoint_files
from fitroom.training.checkpoint_files import Damaged, Folder, unpack

ARRAYS = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.array(1.5, ml_dtypes.bfloat16),
    np.zeros((0, 3), np.int64),
    np.array([True, False]),
]


def same(found: list[Any], wanted: list[Any]) -> bool:
    return len(found) == len(wanted) and all(
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        for a, b in zip(found, wanted, strict=True)
    )


def test_what_is_written_is_read(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "checkpoints")
    assert folder.read(0, print) is None
    folder.write(0, 3, {"epoch": 1}, ARRAYS)
    found = folder.read(0, print)
    assert found is not None
    assert (found.about["epoch"], found.is_finished) == (1, False)
    assert same(found.arrays, ARRAYS)


def test_the_last_two_are_kept_until_the_training_is_finished(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for steps in (1, 5, 20, 100):
        folder.write(7, steps, {"steps": steps}, [])
    folder.write(8, 1, {}, [])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "000007-000000000020.zip", "000007-000000000100.zip", "000008-000000000001.zip"
    ]  # fmt: skip
    folder.write(7, None, {"steps": "all"}, [])
    found = folder.read(7, print)
    assert found is not None
    assert found.is_finished
    assert len(list(tmp_path.iterdir())) == 2
    folder.remove()
    assert not tmp_path.exists()


def test_no_flipped_byte_goes_unnoticed(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(0, 1, {"epoch": 1}, ARRAYS)
    (path,) = tmp_path.glob("*.zip")
    content = path.read_bytes()
    whole = unpack(path)
    noticed = 0
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :])
        try:
            about, arrays = unpack(path)
        except Damaged:
            noticed += 1
        else:  # a byte that means nothing, such as the time of day
            assert about == whole[0]
            assert same(arrays, whole[1])
    assert noticed > len(content) / 2


def test_no_half_is_taken_for_a_whole(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(0, 1, {"epoch": 1}, ARRAYS)
    (path,) = tmp_path.glob("*.zip")
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(Damaged):
            unpack(path)


def test_the_one_before_is_used_where_the_last_is_damaged(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(0, 1, {"epoch": 1}, [])
    folder.write(0, 2, {"epoch": 2}, [])
    (tmp_path / "000000-000000000002.zip").write_bytes(b"PK")
    told: list[tuple[str, bool]] = []
    found = folder.read(0, lambda file, reason, earlier: told.append((file, earlier)))
    assert found is not None
    assert found.about["epoch"] == 1
    assert told == [("000000-000000000002.zip", True)]


def test_new_ones_are_kept_though_damaged_ones_were_farther(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for steps in (98, 99):
        folder.write(0, steps, {}, [])
        (tmp_path / f"000000-{steps:012}.zip").write_bytes(b"PK")
    assert folder.read(0, lambda **_: None) is None
    for steps in (5, 10):
        folder.write(0, steps, {"steps": steps}, [])
    found = folder.read(0, lambda **_: None)
    assert found is not None
    assert found.about["steps"] == 10


def test_a_write_that_fails_leaves_everything_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(tmp_path)
    folder.write(0, 1, {"epoch": 1}, [])

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint_files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        folder.write(0, 2, {"epoch": 2}, [])
    assert [path.name for path in tmp_path.iterdir()] == ["000000-000000000001.zip"]


def test_another_releases_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_files, "SCHEMA", "fitroom/checkpoint/99")
    Folder(tmp_path).write(0, 1, {}, [])
    monkeypatch.undo()
    with pytest.raises(Damaged, match="fitroom/checkpoint/99"):
        unpack(next(tmp_path.glob("*.zip")))
