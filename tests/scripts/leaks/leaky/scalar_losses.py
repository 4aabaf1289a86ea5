"""Scalar losses and a metric's results are appended to a global list."""

import keras
import tensorflow as tf

model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(16), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD(1e-3)
metric = keras.metrics.Mean()
x = tf.random.normal((32, 16))
results = []


@tf.function
def step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


for epoch in range(20):
    for _ in range(300):
        metric.update_state(step())
        results.append(metric.result())  # leak: retained_tensors
