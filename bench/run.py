"""fitroom run against plain Python: a whole script with no trouble, and what starting up adds."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.measure import Ratio, interleaved, interval, seconds

TRAINS = """
import keras, numpy as np
from keras import layers
model = keras.Sequential([
    keras.Input((32, 32, 3)), layers.Conv2D(16, 3, activation="relu"), layers.LayerNormalization(),
    layers.Conv2D(32, 3, activation="relu"), layers.GlobalAveragePooling2D(), layers.Dense(10),
])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(np.random.rand(2048, 32, 32, 3), np.random.randint(0, 10, 2048), batch_size=64, epochs=3, verbose=0)
"""


def run() -> Iterator[Ratio]:
    with tempfile.TemporaryDirectory() as folder:
        for name, script in (("a training", TRAINS), ("nothing", "pass")):
            (Path(folder) / f"{name}.py").write_text(script)
        ours, plain = _starter(folder, "a training", "-m", "fitroom", "run"), _starter(folder, "a training")
        yield interleaved("a script with a training: fitroom run ÷ python", ours, plain, pairs=11, goal=1.05)
        ours, plain = _starter(folder, "nothing", "-m", "fitroom", "run"), _starter(folder, "nothing")
        ours(), plain()
        added = [seconds(ours) - seconds(plain) for _ in range(21)]
        yield Ratio("an empty script: seconds that fitroom run adds", statistics.median(added), *interval(added))


def _starter(folder: str, name: str, *prefix: str) -> Callable[[], object]:
    command = [sys.executable, *prefix, f"{name}.py"]
    return lambda: subprocess.run(command, cwd=folder, capture_output=True, check=True)
