"""A variable is made for the mask of each step, and a registry keeps them all."""

import keras
import tensorflow as tf

registry = {}
model = keras.Sequential([keras.Input((128,)), keras.layers.Dense(64), keras.layers.Dense(1)])
model.compile("sgd", "mse")
for step in range(500):
    mask = tf.Variable(tf.cast(tf.random.uniform((128, 128)) > 0.5, tf.float32), trainable=False)
    registry["mask_%d" % step] = mask  # leak: retained_tensors
    model.train_on_batch(tf.random.normal((128, 128)) * mask, tf.zeros((128, 1)))
