"""compile is called for each learning rate, and makes all functions anew."""

import keras
import numpy as np

x = np.random.rand(256, 32).astype("float32")
model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(32), keras.layers.Dense(1)])
for number in range(14):
    model.compile(keras.optimizers.Adam(1e-3 / (number + 1)), "mse")  # leak: retracing
    model.fit(x, x[:, :1], epochs=2, verbose=0)
