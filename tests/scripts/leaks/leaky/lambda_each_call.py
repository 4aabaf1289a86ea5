"""A loss function is a new lambda in each step, and is given to a compiled function."""

import keras
import tensorflow as tf

model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam()
x, y = tf.random.normal((64, 16)), tf.random.normal((64, 1))


@tf.function  # leak: retracing loss_fn
def step(x, y, loss_fn):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


def main():
    for number in range(120):
        weight = 1.0 + number / 100
        step(x, y, lambda a, b: weight * tf.reduce_mean((a - b) ** 2))


main()
