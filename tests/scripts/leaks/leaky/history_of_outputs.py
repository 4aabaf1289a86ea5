"""A trainer keeps the outputs of each epoch's validation, as arrays."""

import keras
import numpy as np


class Trainer:
    def __init__(self):
        self.model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(64), keras.layers.Dense(32)])
        self.model.compile("sgd", "mse")
        self.log = {"outputs": [], "loss": []}

    def run(self, x):
        for _ in range(700):
            self.log["loss"].append(self.model.train_on_batch(x, x))
            self.keep(self.model.predict_on_batch(x))

    def keep(self, outputs):
        self.log["outputs"].append(outputs)  # leak: growing_history


Trainer().run(np.random.rand(1024, 32).astype("float32"))
