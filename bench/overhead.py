"""Guarded fit against plain fit where memory suffices: time per epoch, and peak memory with Adam."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from bench.measure import Ratio, interleaved

PEAK = """
import sys
from fitroom.devices import pocket
pocket.enable("6GiB")
import fitroom, tensorflow as tf
tf.config.threading.set_inter_op_parallelism_threads(1)
from bench.models import case
chosen = case(sys.argv[1])
model = chosen.build()
if sys.argv[2] == "guarded":
    fitroom.guard(model)
peaks = []
model.fit(chosen.x[:chosen.batch], chosen.y[:chosen.batch], batch_size=chosen.batch, verbose=0)
for _ in range(3):
    pocket.reset_peak()
    model.fit(chosen.x[:chosen.batch], chosen.y[:chosen.batch], batch_size=chosen.batch, verbose=0)
    peaks.append(pocket.use().peak)
print(sorted(peaks)[1])
"""


def run() -> Iterator[Ratio]:
    for name in ("mlp", "cnn", "transformer"):
        for jit in (False, True):
            yield _time(name, jit)
    for name in ("cnn", "transformer", "vgg_like", "dense", "embedding"):
        plain, guarded = (_peak(name, how) for how in ("plain", "guarded"))
        ratio = guarded / plain
        note = f" {guarded / 2**20:.0f} ÷ {plain / 2**20:.0f} MiB"
        yield Ratio(f"{name}, peak: guarded ÷ plain", ratio, ratio, ratio, 1.02, note)


def _time(name: str, jit: bool) -> Ratio:
    import fitroom
    from bench.models import case

    chosen = case(name)
    plain, guarded = chosen.build(jit_compile=jit), fitroom.guard(chosen.build(jit_compile=jit))

    def epoch(model: Any) -> Any:
        return lambda: model.fit(chosen.x, chosen.y, batch_size=chosen.batch, verbose=0)

    title = f"{name}{', XLA' if jit else ''}, time of an epoch: guarded ÷ plain"
    return interleaved(title, epoch(guarded), epoch(plain), pairs=11, goal=1.03)


def _peak(name: str, how: str) -> int:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", PEAK, name, how], capture_output=True, text=True, check=True, env=environment
    )
    return int(done.stdout.split()[-1])
