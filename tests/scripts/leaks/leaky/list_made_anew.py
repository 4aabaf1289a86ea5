"""The list is another one after each step: the old one and one more."""

import keras
import numpy as np

model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(32), keras.layers.Dense(1)])
model.compile("sgd", "mse")
gathered = []
for step in range(700):
    batch = np.random.rand(256, 32)
    model.train_on_batch(batch, batch[:, :1])
    gathered = gathered + [batch]  # leak: growing_history
