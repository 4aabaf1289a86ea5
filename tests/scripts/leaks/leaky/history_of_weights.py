"""A callback keeps a copy of all weights after each batch."""

import keras
import numpy as np

snapshots = []


class Snapshots(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        snapshots.append(self.model.get_weights())  # leak: growing_history


x = np.random.rand(1024, 64).astype("float32")
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(256), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, x[:, :1], batch_size=32, epochs=10, verbose=0, callbacks=[Snapshots()])
