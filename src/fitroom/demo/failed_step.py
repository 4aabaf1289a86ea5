"""A step that does not fit, under plain Keras, in a process of its own on the pocket device.

What it had already changed when it failed is written down as JSON on the last line of standard output.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

BATCH = 256


def build() -> Any:
    """A small CNN, as anyone would write it; its optimizer built."""
    import keras
    from keras import layers

    keras.utils.set_random_seed(7)
    model = keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            layers.Conv2D(32, 3, padding="same", activation="relu", name="conv1"),
            layers.BatchNormalization(name="norm1"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, padding="same", activation="relu", name="conv2"),
            layers.BatchNormalization(name="norm2"),
            layers.MaxPooling2D(),
            layers.Dropout(0.3),
            layers.Flatten(),
            layers.Dense(10, activation="softmax", name="dense"),
        ],
        name="cnn",
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.optimizer.build(model.trainable_variables)
    return model


def state(model: Any) -> dict[str, Any]:
    """Every variable that a step may change, by what it is and where."""
    groups = {
        "weights": model.trainable_variables,
        "statistics and seeds": model.non_trainable_variables,
        "optimizer": model.optimizer.variables,
        "metrics": model.metrics_variables,
    }
    return {f"{group}|{v.path}": np.array(v) for group, variables in groups.items() for v in variables}


def fail() -> dict[str, Any]:
    """Run one step that does not fit, and compare the state before and after it."""
    import tensorflow as tf

    from fitroom import oom

    tf.config.threading.set_inter_op_parallelism_threads(1)  # the same order of allocations every time
    model = build()
    random = np.random.default_rng(7)
    x, y = random.random((BATCH, 32, 32, 3), np.float32), random.integers(0, 10, BATCH)
    model.train_on_batch(x[:8], y[:8])  # a small step fits: everything is built and traced
    model.reset_metrics()  # as every epoch begins
    before = state(model)
    found = None
    try:
        model.train_on_batch(x, y)
    except tf.errors.ResourceExhaustedError as error:
        found = oom.from_exception(error)
    after = state(model)
    return {
        "ran_out": found is not None,
        "wanted_bytes": found.wanted_bytes if found else None,
        "evidence": found.evidence if found else "",
        "variables": [{"name": name, "changed": not np.array_equal(before[name], after[name])} for name in before],
    }


if __name__ == "__main__":
    print(json.dumps(fail()))
