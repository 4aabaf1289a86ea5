"""Attention maps are kept for a plot, on the class, by a layer of the script's own."""

import keras
import tensorflow as tf


class Attention(keras.layers.Layer):
    maps = []

    def __init__(self, units):
        super().__init__()
        self.query, self.key = keras.layers.Dense(units), keras.layers.Dense(units)

    def call(self, x):
        weights = tf.nn.softmax(tf.matmul(self.query(x), self.key(x), transpose_b=True))
        if tf.executing_eagerly():
            Attention.maps.append(weights)  # leak: retained_tensors
        return tf.matmul(weights, x)


layer, head = Attention(16), keras.layers.Dense(1)
optimizer = keras.optimizers.Adam()
x = tf.random.normal((8, 64, 32))
for step in range(500):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(head(layer(x)) ** 2)
    weights = layer.trainable_variables + head.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
