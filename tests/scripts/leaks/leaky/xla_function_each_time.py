"""A compiled function is made for each temperature."""

import tensorflow as tf
import keras

model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)])
x = tf.random.normal((32, 32))


def sampler(temperature):
    @tf.function(jit_compile=True)  # leak: xla_programs_in_loop
    def sample(x):
        return tf.nn.softmax(model(x) / temperature)

    return sample


total = 0.0
for step in range(60):
    total += float(tf.reduce_sum(sampler(1.0 + step / 10)(x)))
print(total)
