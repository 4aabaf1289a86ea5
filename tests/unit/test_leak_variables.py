"""What a function under way has in its variables, read without leaving a trace."""

from __future__ import annotations

import gc
import inspect
import weakref
from collections.abc import Iterator
from types import GeneratorType
from typing import Any

import pytest

from fitroom.leaks import variables


class Batch:
    pass


def test_what_locals_gave_stays_as_it_is() -> None:
    def train(rate: float = 0.1, width: int = 64) -> tuple[dict[str, Any], dict[str, Any]]:
        config = locals()
        config["extra"] = 1
        losses = [1.0, 2.0]
        found = variables.of(inspect.currentframe())
        assert found["losses"] is losses
        return config, found

    config, found = train()
    assert config == {"rate": 0.1, "width": 64, "extra": 1}
    assert found["config"] is config


def test_a_dictionary_that_nobody_else_took_holds_nothing_afterwards() -> None:
    def step() -> weakref.ref[Batch]:
        batch = Batch()
        assert variables.of(inspect.currentframe())["batch"] is batch
        gone = weakref.ref(batch)
        del batch
        return gone if gone() is None else pytest.fail("it is kept by having been looked at")

    assert step()() is None


def batches() -> Iterator[weakref.ref[Batch]]:
    while True:
        batch = Batch()
        seen = weakref.ref(batch)
        yield seen
        del batch
        gc.collect()
        yield seen


def test_a_generators_batch_is_not_kept_by_having_been_looked_at() -> None:
    waiting = batches()
    assert isinstance(waiting, GeneratorType)
    seen = next(waiting)
    assert variables.of(waiting.gi_frame)["batch"] is seen()
    next(waiting)
    assert seen() is None


def test_a_function_whose_dictionary_cannot_be_told_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variables, "_dictionaries", lambda frame: None)

    def train(rate: float = 0.1) -> dict[str, Any]:
        config = locals()
        assert variables.of(inspect.currentframe()) == {}
        return config

    assert train() == {"rate": 0.1}
