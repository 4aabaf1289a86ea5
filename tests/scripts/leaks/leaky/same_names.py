"""Two functions have a list of the same name; only one keeps tensors."""

import keras
import numpy as np
import tensorflow as tf

x = np.random.rand(2048, 32).astype("float32")
model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(128), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam(1e-3)
dataset = tf.data.Dataset.from_tensor_slices(x).batch(64)


def evaluate():
    losses = []
    for batch in dataset:
        losses.append(float(tf.reduce_mean(model(batch))))
    return np.mean(losses)


@tf.function
def train_step(batch):
    with tf.GradientTape() as tape:
        hidden = model.layers[0](batch)
        loss = tf.reduce_mean(model.layers[1](hidden) ** 2)
        loss += 1e-3 * tf.reduce_mean(hidden**2)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss, hidden


def train(epochs):
    losses = []
    for epoch in range(epochs):
        for batch in dataset:
            loss, hidden = train_step(batch)
            losses.append((loss, hidden))  # leak: retained_tensors
        print(epoch, evaluate())


train(30)
