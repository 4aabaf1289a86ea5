"""Small circles, of which Python takes care."""

import keras
import numpy as np

x = np.random.rand(512, 32).astype("float32")
y = np.random.rand(512, 1).astype("float32")


def build(units=32):
    model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(units, activation="relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


class Node:
    def __init__(self):
        self.children = [self]
        self.payload = list(range(50))


model = build()
for _ in range(500):
    for _ in range(60):
        Node()
    model.train_on_batch(x, y)
