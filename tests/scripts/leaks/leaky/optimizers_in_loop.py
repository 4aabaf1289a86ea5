"""The optimizer is made anew for each round, and so all of its slots are, and kept in a list "for later"."""

import keras
import numpy as np
import tensorflow as tf

model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(256, activation="relu"), keras.layers.Dense(8)])
x = tf.constant(np.random.rand(64, 64).astype("float32"))
old = []
for round_ in range(300):
    optimizer = keras.optimizers.Adam(1e-3 * 0.99**round_)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    old.append(optimizer)  # leak: retained_tensors
