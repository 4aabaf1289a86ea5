"""Checkpoints: what they cost a training, and what a kill costs with them."""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from bench.measure import Ratio, interval

TRAINS = """
import json, sys, time
begun = time.time()
import keras, numpy as np
from keras import layers
keras.utils.set_random_seed(1)
width, seconds = int(sys.argv[1]), float(sys.argv[2])
model = keras.Sequential([keras.Input((64,))] + [layers.Dense(width, "relu") for _ in range(4)] + [layers.Dense(10)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
x, y = np.random.rand(4096, 64).astype("float32"), np.random.randint(0, 10, 4096)
class Ticks(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.tick = time.perf_counter()
    def on_epoch_end(self, epoch, logs=None):
        self.took = time.perf_counter() - self.tick
ticks = Ticks()
model.fit(x, y, batch_size=64, epochs=3, verbose=0, callbacks=[ticks])
epochs = max(1, round(seconds / ticks.took)) if len(sys.argv) < 4 else int(sys.argv[3])
ready = time.time() - begun
tick = time.perf_counter()
model.fit(x, y, batch_size=64, epochs=epochs, verbose=0)
print(json.dumps({"seconds": time.perf_counter() - tick, "epochs": epochs, "ready": ready}))
"""
SMALL, LARGE = "small model (17 thousand weights)", "large model (13 million weights)"
WIDTHS = {SMALL: 64, LARGE: 2048}
LONG = {SMALL: 20, LARGE: 80}  # seconds that a training takes, about: some checkpoints
PAIRS = {SMALL: 5, LARGE: 3}
KILLS = 4


def run() -> Iterator[Ratio]:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "script.py").write_text(TRAINS)
        for name in WIDTHS:
            epochs = _train(folder, name, "--checkpoint-every", "never", seconds=LONG[name])["epochs"]
            ratios = []
            for turn in range(PAIRS[name]):
                ways: list[tuple[str, ...]] = [(), ("--checkpoint-every", "never")]
                both = {way: _train(folder, name, *way, epochs=epochs)["seconds"] for way in ways[:: 1 - turn % 2 * 2]}
                ratios.append(both[ways[0]] / both[ways[1]])
            what = f"{name}: training time with checkpoints ÷ without"
            yield Ratio(what, statistics.median(ratios), *interval(ratios), 1.03)
        yield from _kills(folder)


def _train(folder: str, name: str, *options: str, seconds: float = 0, epochs: int = 0) -> dict[str, Any]:
    command = _command(name, *options, seconds=seconds, epochs=epochs)
    done = subprocess.run(command, cwd=folder, capture_output=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _command(name: str, *options: str, seconds: float = 0, epochs: int = 0) -> list[str]:
    arguments = [str(WIDTHS[name]), str(seconds), *([str(epochs)] if epochs else [])]
    return [sys.executable, "-m", "fitroom", "run", *options, "script.py", *arguments]


def _kills(folder: str) -> Iterator[Ratio]:
    found = _train(folder, SMALL, seconds=LONG[SMALL])
    undisturbed, ready, generator = found["seconds"], found["ready"], random.Random(0)
    lost = []
    for _ in range(KILLS):
        begun = time.monotonic()
        run = subprocess.Popen(
            _command(SMALL, epochs=found["epochs"]), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        time.sleep(ready + generator.uniform(0.2, 0.9) * undisturbed)
        for child in psutil.Process(run.pid).children():
            os.kill(child.pid, 9)
        run.communicate()
        lost.append(time.monotonic() - begun - ready - undisturbed)
    yield Ratio("a kill: seconds lost", statistics.median(lost), *interval(lost))
    shares = [one / ready for one in lost]
    yield Ratio(
        "a kill: time lost ÷ time from the script's start to its training", statistics.median(shares), *interval(shares)
    )
