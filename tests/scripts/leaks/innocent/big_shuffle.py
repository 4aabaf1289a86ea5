"""A shuffle buffer that fills for a while, and is full then."""

import keras
import numpy as np
import tensorflow as tf

x = np.random.rand(512, 32).astype("float32")
y = np.random.rand(512, 1).astype("float32")


def build(units=32):
    model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(units, activation="relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


dataset = tf.data.Dataset.range(40_000).map(lambda n: tf.random.normal((256,)) + tf.cast(n, tf.float32))
dataset = dataset.shuffle(20_000).map(lambda row: (row[:32], row[:1])).batch(64)
build().fit(dataset, epochs=3, verbose=0)
