"""An own cache, bounded by hand with an OrderedDict, filling for the whole run."""

import collections

import keras
import numpy as np


class Cache:
    def __init__(self, room):
        self.room = room
        self.entries = collections.OrderedDict()

    def get(self, key):
        if key not in self.entries:
            self.entries[key] = np.random.rand(128, 64).astype("float32")
            while len(self.entries) > self.room:
                self.entries.popitem(last=False)
        return self.entries[key]


model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(32), keras.layers.Dense(1)])
model.compile("sgd", "mse")
cache, y = Cache(1000), np.zeros((128, 1), "float32")
for step in range(1300):
    model.train_on_batch(cache.get(step), y)
