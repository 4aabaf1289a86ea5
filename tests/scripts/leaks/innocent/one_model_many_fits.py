"""One model, trained in thirty rounds."""

import keras
import numpy as np

x = np.random.rand(512, 32).astype("float32")
y = np.random.rand(512, 1).astype("float32")


def build(units=32):
    model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(units, activation="relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


model = build()
for _ in range(30):
    model.fit(x, y, epochs=2, verbose=0)
