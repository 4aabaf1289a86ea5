"""Weights before and after each fit are kept in a list of named tuples."""

from typing import NamedTuple

import keras
import numpy as np


class Change(NamedTuple):
    before: list
    after: list


x = np.random.rand(256, 128).astype("float32")
model = keras.Sequential([keras.Input((128,)), keras.layers.Dense(512), keras.layers.Dense(1)])
model.compile("adam", "mse")
changes = []
for round_ in range(60):
    before = model.get_weights()
    model.fit(x, x[:, :1], epochs=1, verbose=0)
    changes += [Change(before, model.get_weights())]  # leak: growing_history
