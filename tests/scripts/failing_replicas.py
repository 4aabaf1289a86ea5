"""Trainings on two replicas that fail, each for another cause: ``python failing_replicas.py CAUSE``.

What they write to standard output and error is a log as users have it. Two logical CPUs stand for two cards.
"""

from __future__ import annotations

import sys

import keras
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
x, y = np.zeros((256, 4096, 3), "float32"), np.zeros((256, 1), "float32")


def build() -> keras.Model:
    # Products of matrices: a convolution on the CPU does not look whether it got memory, and crashes.
    layers = [keras.layers.Dense(32, activation="relu") for _ in range(2)]
    return keras.Sequential([keras.Input((4096, 3)), *layers, keras.layers.GlobalAveragePooling1D()])


def whole_batch_per_replica() -> None:
    """Half of the batch would fit on each; train_on_batch gives both all of it."""
    with strategy.scope():
        model = build()
        model.compile("sgd", "mse", jit_compile=False)
    model.train_on_batch(x, y)


def loop_over_the_data() -> None:
    """One function runs the whole epoch."""
    with strategy.scope():
        model, optimizer = build(), keras.optimizers.SGD()
        optimizer.build(model.trainable_variables)

    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(images) - labels) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    @tf.function
    def train_epoch(dataset: tf.data.Dataset) -> None:
        for batch in dataset:
            strategy.run(step, args=batch)

    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(256)
    train_epoch(strategy.experimental_distribute_dataset(dataset))


def model_outside_scope() -> None:
    model = build()
    with strategy.scope():
        model.compile("sgd", "mse", jit_compile=False)
    model.fit(x[:4], y[:4], verbose=2)


def optimizer_outside_scope() -> None:
    optimizer = keras.optimizers.Adam()
    with strategy.scope():
        model = build()
        model.compile(optimizer, "mse", jit_compile=False)
    model.fit(x[:4], y[:4], verbose=2)


def xla_over_replicas() -> None:
    with strategy.scope():
        model = build()
        model.compile("sgd", "mse", jit_compile=True)
    model.fit(x[:4], y[:4], verbose=2)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
