"""Text is made token by token: the sequence grows, and is begun anew for each prompt."""

import keras
import numpy as np
import tensorflow as tf

model = keras.Sequential([keras.Input((None,), dtype="int32"), keras.layers.Embedding(200, 32), keras.layers.LSTM(32), keras.layers.Dense(200)])
step = tf.function(lambda tokens: model(tokens), input_signature=[tf.TensorSpec((None, None), tf.int32)])
for prompt in range(30):
    tokens = tf.constant(np.random.randint(0, 200, (4, 3)), tf.int32)
    for _ in range(40):
        chosen = tf.argmax(step(tokens), axis=-1, output_type=tf.int32)
        tokens = tf.concat([tokens, chosen[:, None]], axis=1)
