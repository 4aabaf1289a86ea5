"""Two models trained in turns, in one compiled function, with images drawn every epoch from the same noise."""

import keras
import numpy as np
import tensorflow as tf

maker = keras.Sequential([keras.Input((16,)), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(64)])
judge = keras.Sequential([keras.Input((64,)), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(1)])
first, second = keras.optimizers.Adam(1e-4), keras.optimizers.Adam(1e-4)
noise = tf.random.normal((16, 16))


@tf.function
def step(real):
    with tf.GradientTape() as one, tf.GradientTape() as other:
        made = maker(tf.random.normal((64, 16)))
        truth, guess = judge(real), judge(made)
        loss_maker = -tf.reduce_mean(guess)
        loss_judge = tf.reduce_mean(guess) - tf.reduce_mean(truth)
    first.apply_gradients(zip(one.gradient(loss_maker, maker.trainable_variables), maker.trainable_variables))
    second.apply_gradients(zip(other.gradient(loss_judge, judge.trainable_variables), judge.trainable_variables))
    return loss_maker, loss_judge


data = tf.data.Dataset.from_tensor_slices(np.random.rand(2048, 64).astype("float32")).shuffle(2048).batch(64)
log = {"maker": [], "judge": []}
for epoch in range(25):
    for real in data:
        loss_maker, loss_judge = step(real)
        log["maker"].append(float(loss_maker))
        log["judge"].append(float(loss_judge))
    image = maker(noise).numpy()
