"""What a walk through the heap counts, where there is very much of it."""

from __future__ import annotations

import gc
import inspect
from typing import Any

import pytest

from fitroom.leaks import census
from fitroom.leaks.scene import Scene

CORPUS: list[list[int]] = []


class Store:
    def __init__(self) -> None:
        self.by_step: dict[int, Any] = {}


def test_of_a_large_heap_only_what_is_near_a_name_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    CORPUS.extend([1, 2, 3, 4] for _ in range(20_000))
    store = Store()
    store.by_step = {step: {"loss": [1.0, 2.0, 3.0, step]} for step in range(50)}
    gc.collect()  # what other tests have left: it would go in between
    try:
        whole = census.take(1, None, Scene(inspect.currentframe()))
        monkeypatch.setattr(census, "_MANY", 1000)
        near = census.take(1, None, Scene(inspect.currentframe()))
    finally:
        CORPUS.clear()
    assert id(store.by_step) in near.lengths
    assert id(store.by_step[7]["loss"]) in near.lengths
    assert id(CORPUS) in near.lengths
    assert len(near.lengths) < len(whole.lengths) - 20_000
    assert near.objects == pytest.approx(whole.objects, rel=0.1)
