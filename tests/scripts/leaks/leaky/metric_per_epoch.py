"""A subclass of Metric that keeps all predictions, and whose reset was forgotten."""

import keras
import numpy as np
import tensorflow as tf


class AllScores(keras.metrics.Metric):
    def __init__(self):
        super().__init__(name="all_scores")
        self.scores = []

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.scores.append(y_pred)  # leak: retained_tensors

    def result(self):
        return tf.reduce_mean(self.scores[-1])


x = np.random.rand(2048, 32).astype("float32")
model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(64), keras.layers.Dense(256)])
model.compile("sgd", "mse", metrics=[AllScores()], run_eagerly=True)
model.fit(x, np.zeros((2048, 256), "float32"), batch_size=64, epochs=16, verbose=0)
