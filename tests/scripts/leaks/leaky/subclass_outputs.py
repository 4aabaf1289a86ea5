"""A model of one's own keeps its last outputs for an auxiliary loss, and never drops them; trained eagerly by hand."""

import keras
import tensorflow as tf


class Encoder(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner = keras.layers.Dense(256, activation="relu")
        self.out = keras.layers.Dense(4)
        self.history = {"codes": []}

    def call(self, x):
        code = self.inner(x)
        self.remember(code)
        return self.out(code)

    def remember(self, code):
        self.history["codes"].append(code)  # leak: retained_tensors


encoder, optimizer = Encoder(), keras.optimizers.Adam()
x, y = tf.random.normal((64, 32)), tf.random.normal((64, 4))
for epoch in range(12):
    for _ in range(50):
        with tf.GradientTape() as tape:
            loss = keras.losses.mean_squared_error(y, encoder(x))
        grads = tape.gradient(loss, encoder.trainable_variables)
        optimizer.apply_gradients(zip(grads, encoder.trainable_variables))
