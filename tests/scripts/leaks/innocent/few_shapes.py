"""Sequences come in a dozen lengths, each of which is traced once."""

import keras
import numpy as np
import tensorflow as tf

x = np.random.rand(512, 32).astype("float32")
y = np.random.rand(512, 1).astype("float32")


def build(units=32):
    model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(units, activation="relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


model = keras.Sequential([keras.layers.Embedding(50, 16), keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(1)])
model(tf.zeros((1, 4), tf.int32))


@tf.function
def score(tokens):
    return tf.reduce_mean(model(tokens))


for step in range(700):
    score(tf.zeros((8, 10 + step * 7 % 12), tf.int32))
