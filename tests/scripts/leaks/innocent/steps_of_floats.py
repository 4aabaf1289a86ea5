"""Every step's numbers in a dictionary of lists, by hand, over many steps: floats only."""

import time

import keras
import numpy as np

model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(16), keras.layers.Dense(1)])
model.compile("adam", "mse", metrics=["mae"])
history = {"step": [], "loss": [], "mae": [], "seconds": []}
x = np.random.rand(32, 16).astype("float32")
began = time.time()
for step in range(2500):
    loss, mae = model.train_on_batch(x, x[:, :1])
    history["step"].append(step)
    history["loss"].append(float(loss))
    history["mae"].append(float(mae))
    history["seconds"].append(time.time() - began)
