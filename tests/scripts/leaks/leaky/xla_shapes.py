"""One function, one graph, and a program of XLA's for every length."""

import keras
import tensorflow as tf

model = keras.Sequential([keras.Input((None, 8)), keras.layers.Dense(32), keras.layers.Dense(1)])


@tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None, None, 8])])  # leak: xla_programs_in_loop
def loss_of(sequences):
    return tf.reduce_mean(model(sequences) ** 2)


for length in range(10, 160):
    loss = loss_of(tf.zeros((4, length, 8)))
print(float(loss))
