"""The loss of each step, a scalar, is kept as a tensor; the step runs line by line."""

import keras
import numpy as np
import tensorflow as tf

model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD()
x, y = tf.random.normal((32, 8)), tf.random.normal((32, 1))
history = {"loss": [], "step": []}


def step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)
    return loss


for number in range(1500):
    loss = step()
    history["loss"].append(loss)  # leak: retained_tensors
    history["step"].append(number)
print(np.mean(history["loss"]))
