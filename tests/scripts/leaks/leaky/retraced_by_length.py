"""Each sequence has a length of its own, and each length a graph."""

import keras
import numpy as np
import tensorflow as tf

embedding = keras.layers.Embedding(100, 16)
dense = keras.layers.Dense(1)
model = keras.Sequential([embedding, keras.layers.GlobalAveragePooling1D(), dense])
model(tf.zeros((1, 4), tf.int32))


@tf.function  # leak: retracing tokens
def score(tokens):
    return tf.reduce_sum(model(tokens))


def main():
    total = 0.0
    for length in range(5, 205):
        total += float(score(tf.constant(np.random.randint(0, 100, (8, length)), tf.int32)))
    print(total)


main()
