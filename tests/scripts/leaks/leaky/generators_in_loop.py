"""Each epoch makes its dataset anew, of a generator that closes over the epoch's arrays."""

import keras
import numpy as np
import tensorflow as tf

model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile("sgd", "mse")


def dataset():
    samples = np.random.rand(4096, 64).astype("float32")

    def generate():
        for start in range(0, 4096, 512):
            yield samples[start : start + 512], np.zeros((512, 1), np.float32)

    signature = (tf.TensorSpec((512, 64)), tf.TensorSpec((512, 1)))
    return tf.data.Dataset.from_generator(generate, output_signature=signature)  # leak: dataset_in_loop


for epoch in range(60):
    model.fit(dataset(), verbose=0)
