"""A model that keeps its losses in an attribute, which Keras makes a list of its own of."""

import keras
import numpy as np


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.seen = []
        self.dense = keras.layers.Dense(64)

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data
        logs = super().train_step(data)
        self.seen.append(x * 2)  # leak: retained_tensors
        return logs


x = np.random.rand(4096, 64).astype("float32")
model = Net()
model.compile("sgd", "mse", run_eagerly=True)
model.fit(x, x, batch_size=64, epochs=8, verbose=0)
