"""A store that drops its oldest half whenever it is full."""

import keras
import numpy as np


class Store:
    limit = 300

    def __init__(self):
        self.rows = []

    def put(self, row):
        self.rows.append(row)
        if len(self.rows) >= self.limit:
            del self.rows[: self.limit // 2]


store = Store()
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(32), keras.layers.Dense(1)])
model.compile("sgd", "mse")
for step in range(1000):
    rows = np.random.rand(256, 64).astype("float32")
    store.put(rows)
    model.train_on_batch(rows, rows[:, :1])
