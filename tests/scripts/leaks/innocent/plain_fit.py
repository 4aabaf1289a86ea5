"""An ordinary training, with validation and callbacks."""

import keras
import numpy as np
import tensorflow as tf

x = np.random.rand(512, 32).astype("float32")
y = np.random.rand(512, 1).astype("float32")


def build(units=32):
    model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(units, activation="relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


model = build()
stop = keras.callbacks.EarlyStopping(patience=100)
model.fit(tf.constant(x), tf.constant(y), epochs=40, verbose=0, validation_data=(x, y), callbacks=[stop])
