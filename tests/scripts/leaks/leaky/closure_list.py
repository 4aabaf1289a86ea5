"""A function that makes a step, with a log in its closure."""

import keras
import tensorflow as tf


def make_step(model, optimizer):
    grads_seen = []

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x) ** 2)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        grads_seen.append(grads)  # leak: retained_tensors
        return float(loss)

    return step


model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(128), keras.layers.Dense(1)])
step = make_step(model, keras.optimizers.SGD(1e-3))
x = tf.random.normal((64, 64))
for _ in range(600):
    step(x)
