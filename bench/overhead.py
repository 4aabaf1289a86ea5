"""Guarded fit against plain fit where memory suffices: time per epoch, and peak memory with Adam."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench import child
from bench.measure import Ratio, interleaved


def run() -> Iterator[Ratio]:
    for name in ("mlp", "cnn", "transformer"):
        for jit in (False, True):
            yield _time(name, jit, goal=1.03)
    for name in ("vgg_like", "dense", "embedding"):  # most of such a step is its update
        yield _time(name, jit=False)
    for name in ("cnn", "transformer", "vgg_like", "dense", "embedding"):
        plain, guarded = (child.run("peak", name, how)["peak"] for how in ("plain", "guarded"))
        ratio = guarded / plain
        note = f" {guarded / 2**20:.0f} ÷ {plain / 2**20:.0f} MiB"
        yield Ratio(f"{name}, peak: guarded ÷ plain", ratio, ratio, ratio, 1.02, note)


def _time(name: str, jit: bool, goal: float | None = None) -> Ratio:
    import fitroom
    from bench.models import case

    chosen = case(name)
    plain, guarded = chosen.build(jit_compile=jit), fitroom.guard(chosen.build(jit_compile=jit))
    data = chosen.steady_dataset()

    def epoch(model: Any) -> Any:
        return lambda: model.fit(data, verbose=0)

    title = f"{name}{', XLA' if jit else ''}, time of an epoch: guarded ÷ plain"
    return interleaved(title, epoch(guarded), epoch(plain), pairs=31, goal=goal)
