"""Outputs of a whole dataset are gathered, because they are wanted."""

import keras
import numpy as np

x = np.random.rand(512, 32).astype("float32")
y = np.random.rand(512, 1).astype("float32")


def build(units=32):
    model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(units, activation="relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


model, found = build(), []
model.fit(x, y, epochs=10, verbose=0)
for start in range(0, 6000, 100):
    found.append(model.predict_on_batch(np.random.rand(512, 32).astype("float32")))
features = np.concatenate(found)
print(features.shape)
model.fit(x, y, epochs=20, verbose=0)
