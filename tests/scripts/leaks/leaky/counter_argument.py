"""The number of the step goes into the function as a Python number, by name, from a class."""

import keras
import tensorflow as tf


class Schedule:
    def __init__(self):
        self.model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(16), keras.layers.Dense(1)])
        self.optimizer = keras.optimizers.SGD(1e-2)

    @tf.function  # leak: retracing step
    def train(self, x, step=0):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self.model(x) ** 2) / (1.0 + step)
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss


schedule, x = Schedule(), tf.random.normal((32, 16))
for step in range(120):
    schedule.train(x, step=step)
