"""Histograms of all weights, one list of (step, name, counts, edges) after each step."""

import keras
import numpy as np


class Summaries:
    def __init__(self):
        self.buffer = []

    def histogram(self, name, values, step):
        counts, edges = np.histogram(values, bins=2000)
        self.buffer.append((step, name, counts, edges))  # leak: growing_history


writer = Summaries()


class Histograms(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        for weight in self.model.weights:
            writer.histogram(weight.path, weight.numpy(), batch)


x = np.random.rand(1024, 32).astype("float32")
model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(64), keras.layers.Dense(1)])
model.compile("rmsprop", "mse")
model.fit(x, x[:, :1], batch_size=32, epochs=12, verbose=0, callbacks=[Histograms()])
