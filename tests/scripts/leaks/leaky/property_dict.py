"""A trainer in slots with a defaultdict of lists; features of each class are kept as tensors."""

from collections import defaultdict

import keras
import tensorflow as tf


class Bank:
    __slots__ = ("features", "size")

    def __init__(self):
        self.features = defaultdict(list)
        self.size = 0

    def push(self, label, feature):
        self.size += 1
        self.features[label].append(feature)  # leak: retained_tensors


bank = Bank()
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(512, activation="relu"), keras.layers.Dense(10)])
optimizer = keras.optimizers.Adam()
for step in range(700):
    x = tf.random.normal((32, 64))
    with tf.GradientTape() as tape:
        feature = model.layers[0](x)
        loss = tf.reduce_mean(model.layers[1](feature) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    bank.push(step % 10, feature)
