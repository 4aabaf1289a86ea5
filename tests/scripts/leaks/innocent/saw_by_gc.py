"""Large circles, and the script collects them itself, every thirty steps."""

import gc

import keras
import numpy as np


class Episode:
    def __init__(self):
        self.itself = self
        self.frames = np.random.rand(128, 256)


model = keras.Sequential([keras.Input((256,)), keras.layers.Dense(32), keras.layers.Dense(1)])
model.compile("sgd", "mse")
for step in range(900):
    episode = Episode()
    model.train_on_batch(episode.frames, np.zeros((128, 1)))
    if step % 30 == 29:
        gc.collect()
