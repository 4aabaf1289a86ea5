"""Every step makes a pipeline for its batch, with an own Python function in it."""

import keras
import numpy as np
import tensorflow as tf

model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(16), keras.layers.Dense(1)])
model.compile("sgd", "mse")
images = np.random.rand(4096, 32).astype("float32")


def augmented(rows):
    noise = np.random.rand(512, 32).astype("float32")

    def noisy(row):
        return row + noise[np.random.randint(512)]

    dataset = tf.data.Dataset.from_tensor_slices(rows)
    return dataset.map(lambda row: tf.numpy_function(noisy, [row], tf.float32)).batch(64)  # leak: dataset_in_loop


for step in range(150):
    for batch in augmented(images[:64]):
        model.train_on_batch(batch, np.zeros((64, 1), "float32"))
