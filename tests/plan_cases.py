"""Models to be planned; imported by processes of their own, whose device is not the tests'."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers as kl


def cnn(*, normed: bool = False) -> Any:
    blocks: list[Any] = []
    for _ in range(14 if normed else 5):
        blocks += [kl.Conv2D(24, 3, padding="same"), *([kl.BatchNormalization()] if normed else []), kl.ReLU()]
    model = keras.Sequential([keras.Input((32, 32, 3)), *blocks, kl.GlobalAveragePooling2D(), kl.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model
