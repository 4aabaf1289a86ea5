"""Accumulation that divides but applies every step. Usage: python 004_1_gradient_accumulation.py [SAMPLES]"""

import sys

import numpy as np
import tensorflow as tf

samples = int(sys.argv[1]) if len(sys.argv) > 1 else 256
num_epochs = 2
x = np.random.rand(samples, 64, 64, 3).astype(np.float32)
y = np.random.rand(samples, 1).astype(np.float32)
data_generator = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)

# Define the model and optimizer
model = tf.keras.models.Sequential([
    tf.keras.layers.Input((64, 64, 3)),
    tf.keras.layers.Conv2D(32, 3, activation="relu"),
    tf.keras.layers.Conv2D(32, 3, activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(1),
])
optimizer = tf.keras.optimizers.Adam(0.001)
accumulation_steps = 4  # Accumulate gradients over 4 steps

# Training loop with gradient accumulation
for epoch in range(num_epochs):
    for batch in data_generator:
        with tf.GradientTape() as tape:
            loss = model(batch[0], training=True)
            loss = tf.reduce_mean(loss)
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients = [g / accumulation_steps for g in gradients]  # Average gradients
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
