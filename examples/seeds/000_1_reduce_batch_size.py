"""Catch the error, halve the batch, fit again. Usage: python 000_1_reduce_batch_size.py [SAMPLES]"""

import sys

import numpy as np
import tensorflow as tf

samples = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
x_train = np.random.rand(samples, 64, 64, 3).astype(np.float32)
y_train = np.random.randint(0, 10, samples)

model = tf.keras.models.Sequential([
    tf.keras.layers.Input((64, 64, 3)),
    tf.keras.layers.Conv2D(32, 3, activation="relu"),
    tf.keras.layers.Conv2D(32, 3, activation="relu"),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(10, activation="softmax"),
])
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy")

batch_size = 32  # Start with a reasonable batch size

try:
    model.fit(x_train, y_train, batch_size=batch_size, epochs=10)
except tf.errors.ResourceExhaustedError:
    print("Resource Exhausted. Reducing batch size...")
    batch_size //= 2  # Halve the batch size
    model.fit(x_train, y_train, batch_size=batch_size, epochs=10)
