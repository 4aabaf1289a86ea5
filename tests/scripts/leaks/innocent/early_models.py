"""Snapshots for an ensemble: the weights of the last three epochs, the older ones dropped."""

import keras
import numpy as np

x = np.random.rand(512, 128).astype("float32")
model = keras.Sequential([keras.Input((128,)), keras.layers.Dense(512, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
snapshots = []
for epoch in range(50):
    model.fit(x, x[:, :1], epochs=1, verbose=0)
    snapshots.append(model.get_weights())
    if len(snapshots) > 3:
        snapshots.pop(0)
