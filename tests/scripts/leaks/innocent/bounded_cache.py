"""A cache of the script's own, for as many keys as there are."""

import keras
import numpy as np
import tensorflow as tf

x = np.random.rand(512, 32).astype("float32")
y = np.random.rand(512, 1).astype("float32")


def build(units=32):
    model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(units, activation="relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


model, cache = build(), {}
for step in range(900):
    key = step % 150
    if key not in cache:
        cache[key] = tf.random.normal((512, 32))
    model.train_on_batch(cache[key], y)
