"""One tensor takes the outputs of every step, and becomes larger and larger."""

import keras
import tensorflow as tf

model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(128), keras.layers.Dense(1)])
model.compile("sgd", "mse")


def run():
    seen = tf.zeros((0, 128))
    for step in range(500):
        x = tf.random.normal((64, 16))
        model.train_on_batch(x, tf.zeros((64, 1)))
        hidden = model.layers[0](x)
        seen = tf.concat([seen, hidden], axis=0)  # leak: retained_tensors
    return seen


print(run().shape)
