"""Tables that are made after the first step leave too little for the second one, beside the slots. Budget: 300MiB"""

import keras
import numpy as np
import tensorflow as tf

x = np.random.rand(1024, 64).astype("float32")
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(4096, "relu"), keras.layers.Dense(8)])
model.compile("adam", "mse")
for step in range(4):
    model.train_on_batch(x, x[:, :8])  # leak: second_step
    if not step:
        tables = [tf.zeros((1024, 1024)) for _ in range(67)]
