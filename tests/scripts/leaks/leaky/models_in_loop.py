"""Trials: a new model for each, and only its score is kept."""

import keras
import numpy as np

x = np.random.rand(256, 32).astype("float32")
y = np.random.rand(256, 1).astype("float32")


def build(units):
    model = keras.Sequential(  # leak: models_in_loop
        [keras.Input((32,)), keras.layers.Dense(units, activation="relu"), keras.layers.Dense(1)]
    )
    model.compile("adam", "mse")
    return model


scores = []
for trial in range(14):
    model = build(16 + trial)
    history = model.fit(x, y, epochs=2, verbose=0)
    scores.append(history.history["loss"][-1])
print(min(scores))
