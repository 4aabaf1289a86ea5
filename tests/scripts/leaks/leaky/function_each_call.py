"""A helper wraps its step in tf.function each time it is called."""

import keras
import tensorflow as tf

model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD(0.01)
optimizer.build(model.trainable_variables)
x, y = tf.random.normal((64, 16)), tf.random.normal((64, 1))


def train_once(x, y):
    @tf.function  # leak: retracing
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    return step(x, y)


for _ in range(120):
    loss = train_once(x, y)
print(float(loss))
