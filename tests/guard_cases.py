"""Models to guard, their data, and ways to compare two trainings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import layers as kl

from tests import faults

GENERATOR = np.random.default_rng(7)
IMAGES = GENERATOR.random((44, 8, 8, 3), np.float32)
TOKENS = GENERATOR.integers(1, 40, (44, 10)).astype(np.int32)
LABELS = GENERATOR.integers(0, 5, 44)
BATCH = 16

Place = str  # "forward", "gradient" or "update"


def _with_fault(layers: list[Any], fault: faults.Fault | None, where: Place) -> list[Any]:
    """`layers` with a faulty one before the last."""
    if fault is None or where == "update":
        return layers
    return [*layers[:-1], faults.layer(fault, where), layers[-1]]  # type: ignore[arg-type]


def cnn_layer_norm(fault: faults.Fault | None = None, where: Place = "forward") -> Any:
    layers = [kl.Conv2D(6, 3, activation="relu"), kl.LayerNormalization(), kl.Dropout(0.2), kl.Flatten(), kl.Dense(5)]
    return keras.Sequential([keras.Input((8, 8, 3)), *_with_fault(layers, fault, where)])


def cnn_batch_norm(fault: faults.Fault | None = None, where: Place = "forward") -> Any:
    layers = [kl.Conv2D(6, 3, activation="relu"), kl.BatchNormalization(), kl.Dropout(0.2), kl.Flatten(), kl.Dense(5)]
    return keras.Sequential([keras.Input((8, 8, 3)), *_with_fault(layers, fault, where)])


def transformer(fault: faults.Fault | None = None, where: Place = "forward") -> Any:
    tokens = keras.Input((10,), dtype="int32")
    x = kl.Embedding(40, 8)(tokens)
    x = kl.LayerNormalization()(x + kl.MultiHeadAttention(2, 4, dropout=0.1)(x, x))
    x = kl.GlobalAveragePooling1D()(kl.LayerNormalization()(x + kl.Dense(8)(kl.Dense(16, "gelu")(x))))
    for layer in _with_fault([kl.Dense(5)], fault, where):
        x = layer(x)
    return keras.Model(tokens, x)


def lstm(fault: faults.Fault | None = None, where: Place = "forward") -> Any:
    layers = [kl.Embedding(40, 6, mask_zero=True), kl.LSTM(6), kl.Dropout(0.1), kl.Dense(5)]
    return keras.Sequential([keras.Input((10,)), *_with_fault(layers, fault, where)])


MODELS: dict[str, tuple[Callable[..., Any], Any]] = {
    "cnn_layer_norm": (cnn_layer_norm, IMAGES),
    "cnn_batch_norm": (cnn_batch_norm, IMAGES),
    "transformer": (transformer, TOKENS),
    "lstm": (lstm, TOKENS),
}
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "adam": lambda: keras.optimizers.Adam(0.01),
    "momentum": lambda: keras.optimizers.SGD(0.05, momentum=0.9),
}


def compiled(model: Any, optimizer: Any, **options: Any) -> Any:
    loss = options.pop("loss", None) or keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=options.pop("metrics", ["accuracy"]), **options)
    return model


def make(name: str, optimizer: str, fault: faults.Fault | None = None, where: Place = "forward", **options: Any) -> Any:
    """The model called `name`, compiled and built, with `fault` placed in it."""
    keras.utils.set_random_seed(3)
    chosen = {
        **OPTIMIZERS,
        "clipped": lambda: keras.optimizers.Adam(0.01, global_clipnorm=1.0),  # updated in one unit
        "clipped_each": lambda: keras.optimizers.Adam(0.01, clipnorm=1.0),  # a variable at a time, but not by rows
    }[optimizer]()
    model = compiled(MODELS[name][0](fault, where), chosen, **options)
    model.optimizer.build(model.trainable_variables)
    if fault is not None and where == "update":
        faults.faulty_update(model.optimizer, len(model.trainable_variables) // 2, fault)
    return model


def state(model: Any) -> dict[str, np.ndarray]:
    """Every variable that a step may change, by what it is."""
    groups = {
        "weight": model.trainable_variables,
        "statistic or seed": model.non_trainable_variables,
        "optimizer": model.optimizer.variables,
        "metric": model.metrics_variables,
    }
    return {
        f"{group} {index} {v.name}": np.asarray(v.value)
        for group, variables in groups.items()
        for index, v in enumerate(variables)
    }


def changed(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> list[str]:
    """The variables that are not bit for bit the same."""
    pairs = zip(before.items(), after.values(), strict=True)
    return [name for (name, one), other in pairs if one.tobytes() != other.tobytes()]


def furthest(one: Any, other: Any) -> float:
    """The largest difference between two models' weights, relative to the largest weight of its variable."""
    pairs = zip(one.get_weights(), other.get_weights(), strict=True)
    return max(float(np.max(np.abs(a - b)) / max(np.max(np.abs(a)), 1e-9)) for a, b in pairs if a.dtype.kind == "f")
