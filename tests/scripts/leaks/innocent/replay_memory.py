"""A replay memory with a bound that fills, while a model is called for each state, and retraced now and then."""

import collections
import random

import keras
import numpy as np
import tensorflow as tf

model = keras.Sequential([keras.Input((4096,)), keras.layers.Dense(32), keras.layers.Dense(4)])
optimizer = keras.optimizers.SGD(1e-3)
memory = collections.deque(maxlen=5000)


@tf.function
def learn(states):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(states) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


state = np.random.rand(4096).astype("float32")
for step in range(2500):
    action = int(np.argmax(model(state[None])))
    new = np.random.rand(4096).astype("float32")
    memory.append((state, action, random.random(), new))
    state = new
    if step > 32:
        size = 8 + step // 100
        learn(tf.constant(np.stack([one[0] for one in random.sample(memory, size)])))
