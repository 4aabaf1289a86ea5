"""Accumulate gradients by hand, eagerly. Usage: python 000_2_gradient_accumulation.py [SAMPLES]"""

import sys

import numpy as np
import tensorflow as tf

samples = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
x_train = np.random.rand(samples, 64, 64, 3).astype(np.float32)
y_train = np.random.rand(samples, 1).astype(np.float32)

model = tf.keras.models.Sequential([
    tf.keras.layers.Input((64, 64, 3)),
    tf.keras.layers.Conv2D(32, 3, activation="relu"),
    tf.keras.layers.Conv2D(32, 3, activation="relu"),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(1),
])

optimizer = tf.keras.optimizers.Adam()
accumulation_steps = 4  # Accumulate gradients over 4 mini-batches
batch_size = 16  # Smaller batch size for accumulation

for epoch in range(10):
    gradients = None
    for step in range(len(x_train) // batch_size):
        with tf.GradientTape() as tape:
            x_batch = x_train[step * batch_size:(step + 1) * batch_size]
            y_batch = y_train[step * batch_size:(step + 1) * batch_size]
            loss = model(x_batch) - y_batch
            loss = tf.reduce_mean(tf.square(loss))  # Example Loss Function

        grads = tape.gradient(loss, model.trainable_variables)
        if gradients is None:
            gradients = grads
        else:
            gradients = [tf.add(g1, g2) for g1, g2 in zip(gradients, grads)]

        if (step + 1) % accumulation_steps == 0:
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            gradients = None
