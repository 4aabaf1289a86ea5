"""Outputs of a step are kept in a list of the function that trains."""

import keras
import numpy as np
import tensorflow as tf

x = np.random.rand(256, 64).astype("float32")
y = np.random.rand(256, 1).astype("float32")
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(512, activation="relu"), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam()


@tf.function
def train_step(images, targets):
    with tf.GradientTape() as tape:
        hidden = model.layers[0](images)
        loss = tf.reduce_mean(tf.square(model.layers[1](hidden) - targets))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss, hidden


def train():
    activations = []
    for step in range(600):
        loss, hidden = train_step(tf.constant(x), tf.constant(y))
        activations.append(hidden)  # leak: retained_tensors
    print(float(loss))


train()
