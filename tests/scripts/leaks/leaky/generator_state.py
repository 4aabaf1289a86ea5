"""A generator remembers every batch that it has given, in a set of bytes and a list of arrays."""

import keras
import numpy as np


def batches():
    given = []
    while True:
        x = np.random.rand(256, 64).astype("float32")
        given.append(x)  # leak: growing_history
        yield x, x[:, :1]


model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(32), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(batches(), steps_per_epoch=100, epochs=10, verbose=0)
