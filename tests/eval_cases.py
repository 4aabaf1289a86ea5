"""Models to evaluate and predict with, and their data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import layers as kl

GENERATOR = np.random.default_rng(5)
BIG, SMALL = 3000, 60
IMAGES = GENERATOR.random((BIG, 16, 16, 3), np.float32)
TOKENS = GENERATOR.integers(0, 50, (BIG, 20)).astype(np.int32)
BINARY = GENERATOR.integers(0, 2, BIG)
CLASSES = GENERATOR.integers(0, 5, BIG)


def cnn(layers: list[Any]) -> Any:
    blocks = [kl.Conv2D(16, 3, activation="relu"), kl.BatchNormalization(), *layers, kl.GlobalAveragePooling2D()]
    model = keras.Sequential([keras.Input((16, 16, 3)), *blocks, kl.Dense(5, "softmax")])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def lstm(layers: list[Any]) -> Any:
    blocks = [kl.Embedding(50, 16, mask_zero=True), kl.LSTM(16), *layers, kl.Dense(1, "sigmoid")]
    model = keras.Sequential([keras.Input((20,)), *blocks])
    model.compile("adam", "binary_crossentropy", metrics=[keras.metrics.AUC(name="auc"), "accuracy"])
    return model


def by_name(layers: list[Any]) -> Any:
    images = keras.Input((16, 16, 3), name="images")
    x = kl.Conv2D(16, 3, activation="relu")(images)
    for layer in layers:
        x = layer(x)
    x = kl.GlobalAveragePooling2D()(x)
    model = keras.Model({"images": images}, {"kind": kl.Dense(5, "softmax")(x), "score": kl.Dense(1)(x)})
    losses = {"kind": "sparse_categorical_crossentropy", "score": "mse"}
    metrics = {"kind": ["accuracy"], "score": [keras.metrics.MeanAbsoluteError(name="mae"), keras.metrics.Mean()]}
    model.compile("adam", losses, metrics={**metrics, "score": metrics["score"][:1]})
    return model


MODELS: dict[str, tuple[Callable[[list[Any]], Any], Any, Any]] = {
    "cnn": (cnn, IMAGES, CLASSES),
    "lstm": (lstm, TOKENS, BINARY),
    "dict": (by_name, {"images": IMAGES}, {"kind": CLASSES, "score": BINARY.astype(np.float32)}),
}


def first(data: Any, count: int) -> Any:
    return {key: value[:count] for key, value in data.items()} if isinstance(data, dict) else data[:count]


def made(name: str, layers: list[Any] | None = None) -> Any:
    keras.utils.set_random_seed(4)
    return MODELS[name][0](layers or [])
