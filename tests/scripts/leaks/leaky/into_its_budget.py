"""Outputs are kept until the device is full. Budget: 300MiB"""

import time

import keras
import tensorflow as tf

x, y = tf.random.normal((256, 256)), tf.random.normal((256, 512))
model = keras.Sequential([keras.Input((256,)), keras.layers.Dense(1024, activation="relu"), keras.layers.Dense(512)])
optimizer = keras.optimizers.SGD()
kept = []


@tf.function
def train_step(features, targets):
    with tf.GradientTape() as tape:
        outputs = model(features)
        loss = tf.reduce_mean((outputs - targets) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return outputs


full = None
while full is None:
    begun = time.time()
    try:
        kept.append(train_step(x, y))  # leak: retained_tensors
    except tf.errors.ResourceExhaustedError:
        full = begun
    if time.time() - begun > 9:  # the allocator waits for ten seconds before it gives up
        full = begun
print("full at", full)
