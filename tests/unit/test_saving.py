"""When checkpoints are due, and what becomes of those that cannot be written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fitroom.devices import host
from fitroom.training import saving
from fitroom.training.checkpoint_files import Folder
from fitroom.training.saving import Saver

ABOUT = {"epoch": 0, "step": 1}


class Told:
    def __init__(self) -> None:
        self.kinds: list[str] = []

    def __call__(self, kind: str, **_: Any) -> None:
        self.kinds.append(kind)


def saver(folder: Path, told: Told, every: float | None = 0.0) -> Saver:
    return Saver(Folder(folder), told, every=every, after_death=False)


def test_one_is_written_and_the_next_is_due(tmp_path: Path) -> None:
    told = Told()
    one = saver(tmp_path, told)
    assert one.is_due()
    one.save(0, 1, lambda copy: (ABOUT, [np.zeros(3)]), 24)
    one.wait()
    assert told.kinds == ["checkpoint"]
    assert one.is_due()
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("content", [lambda copy: 1 / 0, lambda copy: ({**ABOUT, "bad": object()}, [])])
def test_what_cannot_be_written_is_told_of_once_and_tried_again(tmp_path: Path, content: Any) -> None:
    told = Told()
    one = saver(tmp_path, told)
    for _ in range(2):
        one.save(0, 1, content, 0)
        one.wait()
        assert one.is_due()
    assert told.kinds == ["checkpoint_lost"]
    one.save(0, 1, lambda copy: (ABOUT, []), 0)
    one.wait()
    assert told.kinds == ["checkpoint_lost", "checkpoint"]


def test_without_room_for_a_copy_nothing_is_copied(tmp_path: Path) -> None:
    told, asked = Told(), []

    def content(copy: bool) -> Any:
        asked.append(copy)
        return ABOUT, [np.zeros(3)]

    saver(tmp_path, told).save(0, 1, content, host.memory().available)
    assert asked == [False]
    assert told.kinds == ["checkpoint"], "it is there when the call returns"


def test_the_first_one_of_a_large_model_waits_until_it_is_worth_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = saver(tmp_path, Told(), every=None), saver(tmp_path, Told(), every=None)
    small.begin(4000)
    large.begin(400 * 10**6)
    begun = small._born
    monkeypatch.setattr(saving.time, "monotonic", lambda: begun + 10)
    assert (small.is_due(), large.is_due()) == (True, False)
    monkeypatch.setattr(saving.time, "monotonic", lambda: begun + 200)
    assert large.is_due()


def test_ends_cost_little_and_leave_room_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    one = saver(tmp_path, told, every=None)
    assert not one.may_save_end(100 * 2**20), "it has trained for a moment only"
    monkeypatch.setattr(saving.time, "monotonic", lambda: one._born + 3600)
    assert one.may_save_end(100 * 2**20)
    assert not saver(tmp_path, told).may_save_end(2**60)
    assert told.kinds == ["checkpoint_lost"]
