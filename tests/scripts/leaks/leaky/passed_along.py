"""A list is given to a function that adds to it, under another name."""

import keras
import numpy as np
import tensorflow as tf

model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(256), keras.layers.Dense(32)])
x = tf.random.normal((512, 64))
optimizer = keras.optimizers.SGD(1e-3)


def remember(store, value):
    store.append(value)  # leak: retained_tensors


def main():
    history = []
    best = []
    for step in range(800):
        with tf.GradientTape() as tape:
            out = model(x)
            loss = tf.reduce_mean(out**2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        remember(history, out)
        if step % 100 == 0:
            best.append(float(loss))
    print(np.mean(best))


main()
