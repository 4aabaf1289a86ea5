"""Search for a batch size that fits, on several devices. Usage: python 002_1_batch_size_search.py [SAMPLES [REPLICAS]]"""

import sys

import numpy as np
import tensorflow as tf
from tensorflow import keras

samples = int(sys.argv[1]) if len(sys.argv) > 1 else 512
x_train = np.random.rand(samples, 224, 224, 3).astype(np.float32)
y_train = np.eye(10, dtype=np.float32)[np.random.randint(0, 10, samples)]

replicas = int(sys.argv[2]) if len(sys.argv) > 2 else 0  # without GPUs: the CPU as so many devices
if replicas:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * replicas)
strategy = tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(replicas)] or None)

with strategy.scope():
    model = keras.Sequential([
        keras.layers.Conv2D(32, (3, 3), activation="relu", input_shape=(224, 224, 3)),
        keras.layers.MaxPooling2D((2, 2)),
        keras.layers.Conv2D(32, (3, 3), activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(10, activation="softmax"),
    ])
    model.compile(optimizer="adam", loss="categorical_crossentropy", metrics=["accuracy"])

    # Iterative batch size reduction to find optimal value
    initial_batch_size = 128
    batch_size = initial_batch_size
    while True:
        try:
            model.fit(x_train, y_train, batch_size=batch_size, epochs=1, verbose=1)
            break  # Success: batch_size works
        except tf.errors.ResourceExhaustedError:
            batch_size //= 2
            print(f"Resource exhausted, reducing batch size to {batch_size}")
            if batch_size < 1:
                raise RuntimeError("Cannot find suitable batch size.")
