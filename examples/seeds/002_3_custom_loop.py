"""A loop over the dataset inside one tf.function. Usage: python 002_3_custom_loop.py [SAMPLES [REPLICAS]]"""

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
    loss_function = keras.losses.SparseCategoricalCrossentropy()

    optimizer = tf.keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)  # inside the function, several replicas could not

    def distributed_train_step(images, labels):
        with tf.GradientTape() as tape:
            predictions = model(images)
            loss = loss_function(labels, predictions)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    @tf.function
    def distributed_train_epoch(dataset):
        for images, labels in dataset:
            strategy.run(distributed_train_step, args=(images, labels))

    dataset = tf.data.Dataset.from_tensor_slices((x_train, y_train)).batch(batch_size)
    distributed = strategy.experimental_distribute_dataset(dataset)
    for epoch in range(2):
        distributed_train_epoch(distributed)
