"""A generator of batches that Keras runs in threads, with a queue."""

import keras
import numpy as np

x = np.random.rand(512, 32).astype("float32")
y = np.random.rand(512, 1).astype("float32")


def build(units=32):
    model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(units, activation="relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 100

    def __getitem__(self, index):
        return np.random.rand(512, 32).astype("float32"), y


build().fit(Batches(workers=2, max_queue_size=20), epochs=6, verbose=0)
