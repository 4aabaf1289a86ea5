"""The training that ``fitroom demo`` watches, in a process of its own on the pocket device.

A small CNN, as anyone would write it, given a batch that does not fit. What happens to it, under plain Keras, guarded,
or carried through, is written down as JSON on the last line of standard output.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

BATCH = 256
STEPS = 4


def build(*, independent: bool = False) -> Any:
    """The CNN, compiled, its optimizer built; `independent`: with layers that treat each sample by itself."""
    import keras
    from keras import layers

    keras.utils.set_random_seed(7)
    normalisation = layers.LayerNormalization if independent else layers.BatchNormalization
    model = keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            layers.Conv2D(32, 3, padding="same", activation="relu", name="conv1"),
            normalisation(name="norm1"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, padding="same", activation="relu", name="conv2"),
            normalisation(name="norm2"),
            layers.MaxPooling2D(),
            layers.Dropout(0.0 if independent else 0.3),
            layers.Flatten(),
            layers.Dense(10, activation="softmax", name="dense"),
        ],
        name="cnn",
    )
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9) if independent else "adam"
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.optimizer.build(model.trainable_variables)
    return model


def batch() -> tuple[Any, Any]:
    """Made-up images and labels: one batch."""
    random = np.random.default_rng(7)
    return random.random((BATCH, 32, 32, 3), np.float32), random.integers(0, 10, BATCH)


def state(model: Any) -> dict[str, Any]:
    """Every variable that a step may change, by what it is and where."""
    groups = {
        "weights": model.trainable_variables,
        "statistics and seeds": model.non_trainable_variables,
        "optimizer": model.optimizer.variables,
        "metrics": model.metrics_variables,
    }
    return {f"{group}|{v.path}": np.array(v) for group, variables in groups.items() for v in variables}


def fail_once(guarded: bool) -> dict[str, Any]:
    """Run one step that does not fit, under plain Keras or guarded, and compare the state before and after it."""
    import tensorflow as tf

    import fitroom
    from fitroom import oom

    tf.config.threading.set_inter_op_parallelism_threads(1)  # the same order of allocations every time
    model = build()
    if guarded:
        fitroom.guard(model)
    x, y = batch()
    model.train_on_batch(x[:8], y[:8])  # a small step fits: everything is built and traced
    model.reset_metrics()  # as every epoch begins
    before = state(model)
    message, found = "", None
    try:
        model.train_on_batch(x, y)
    except tf.errors.ResourceExhaustedError as error:
        message, found = str(error), oom.from_exception(error)
    after = state(model)
    return {
        "ran_out": bool(message),
        "message": message,
        "wanted_bytes": found.wanted_bytes if found else None,
        "evidence": found.evidence if found else "",
        "variables": [{"name": name, "changed": not np.array_equal(before[name], after[name])} for name in before],
    }


def carry_through() -> dict[str, Any]:
    """Train the same CNN, with a normalisation that treats samples independently, for a few guarded steps."""
    import tensorflow as tf

    import fitroom
    from fitroom.training.guarding import events

    tf.config.threading.set_inter_op_parallelism_threads(1)
    model = fitroom.guard(build(independent=True))
    x, y = batch()
    for _ in range(STEPS):
        model.train_on_batch(x, y)
    return {
        "updates": int(model.optimizer.iterations),
        "out_of_memory": sum(event.kind == "oom" for event in events(model)),
        "slice": max((int(event.data["size"] or 0) for event in events(model) if event.kind == "rung"), default=BATCH),
        "weights": [weight.ravel().tolist() for weight in model.get_weights()],
    }


if __name__ == "__main__":
    modes = {"plain": lambda: fail_once(False), "guarded": lambda: fail_once(True), "carried": carry_through}
    print(json.dumps(modes[sys.argv[1]]()))
