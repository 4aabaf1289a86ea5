"""A learning rate, a Python number, is given to a function: each is another graph."""

import keras
import tensorflow as tf

model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(32), keras.layers.Dense(1)])
x, y = tf.random.normal((64, 16)), tf.random.normal((64, 1))


@tf.function  # leak: retracing rate
def train_step(features, targets, rate):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(features) - targets) ** 2)
    for variable, gradient in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables)):
        variable.assign_sub(rate * gradient)
    return loss


rate = 0.01
for step in range(150):
    loss = train_step(x, y, rate)
    rate *= 0.999
print(float(loss))
