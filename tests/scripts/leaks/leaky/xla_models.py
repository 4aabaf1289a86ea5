"""Trials with XLA: each model is compiled anew."""

import keras
import numpy as np

x = np.random.rand(128, 16).astype("float32")
y = np.random.rand(128, 1).astype("float32")


def trial(units):
    model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(units), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=True)
    return model.fit(x, y, epochs=2, batch_size=64, verbose=0)  # leak: xla_programs_in_loop


for units in range(8, 40):
    trial(units)
