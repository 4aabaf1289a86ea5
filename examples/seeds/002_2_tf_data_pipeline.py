"""A tf.data pipeline on several devices. Usage: python 002_2_tf_data_pipeline.py [SAMPLES [REPLICAS]]"""

import sys

import numpy as np
import tensorflow as tf
from tensorflow import keras

samples = int(sys.argv[1]) if len(sys.argv) > 1 else 512
x_train = np.random.rand(samples, 64, 64, 3).astype(np.float32)
y_train = np.random.randint(0, 10, samples)
batch_size = 64

replicas = int(sys.argv[2]) if len(sys.argv) > 2 else 0  # without GPUs: the CPU as so many devices
if replicas:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * replicas)
strategy = tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(replicas)] or None)

with strategy.scope():
    model = keras.Sequential([
        keras.layers.Input((64, 64, 3)),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(10, activation="softmax"),
    ])
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy")

    dataset = tf.data.Dataset.from_tensor_slices((x_train, y_train))
    dataset = dataset.shuffle(buffer_size=1000).batch(batch_size).prefetch(buffer_size=tf.data.AUTOTUNE)

    model.fit(dataset, epochs=10)
