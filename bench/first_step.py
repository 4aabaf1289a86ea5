"""Guarded fit against plain fit: from the call to the end of the first step, tracing included."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from bench.measure import Ratio, interval, seconds


def run() -> Iterator[Ratio]:
    for name in ("mlp", "cnn", "transformer"):
        for jit in (False, True):
            yield _first_step(name, jit)


def _first_step(name: str, jit: bool, pairs: int = 11) -> Ratio:
    import keras

    import fitroom
    from bench.models import case

    chosen = case(name)
    x, y = chosen.x[: chosen.batch], chosen.y[: chosen.batch]

    def once(guarded: bool) -> float:
        keras.backend.clear_session()
        model: Any = chosen.build(jit_compile=jit)
        if guarded:
            fitroom.guard(model)
        return seconds(lambda: model.fit(x, y, batch_size=chosen.batch, verbose=0))

    once(True), once(False)
    ratios = []
    for turn in range(pairs):
        # A model is new each time, so its building is not to be timed: the pairs are made here.
        times = {guarded: once(guarded) for guarded in ((True, False) if turn % 2 else (False, True))}
        ratios.append(times[True] / times[False])
    low, high = interval(ratios)
    title = f"{name}{', XLA' if jit else ''}, time to the end of the first step: guarded ÷ plain"
    return Ratio(title, statistics.median(ratios), low, high, 1.15)
