"""Persistent tapes are kept, with every activation that they recorded."""

import keras
import tensorflow as tf

model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(512, activation="relu"), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD()
x, y = tf.random.normal((256, 64)), tf.random.normal((256, 1))


class Trainer:
    def __init__(self):
        self.tapes = []

    def step(self):
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        self.tapes.append(tape)  # leak: retained_tensors


trainer = Trainer()
for _ in range(500):
    trainer.step()
