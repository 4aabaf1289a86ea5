"""Layers and slots come to be one by one, and then nothing does."""

import keras
import numpy as np
import tensorflow as tf

x = np.random.rand(512, 32).astype("float32")
y = np.random.rand(512, 1).astype("float32")


def build(units=32):
    model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(units, activation="relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


layers, optimizer = {}, keras.optimizers.Adam()
for step in range(600):
    with tf.GradientTape() as tape:
        name = f"layer{min(step // 10, 6)}"
        if name not in layers:
            layers[name] = keras.Sequential([keras.Input((32,)), keras.layers.Dense(512), keras.layers.Dense(1)])
            optimizer = keras.optimizers.Adam()
        loss = tf.reduce_mean((layers[name](x) - y) ** 2)
    weights = layers[name].trainable_variables
    optimizer.apply(tape.gradient(loss, weights), weights)
