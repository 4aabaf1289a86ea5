"""At the end of each epoch the weights are kept, "to choose the best later"."""

import keras
import numpy as np

x = np.random.rand(512, 128).astype("float32")
model = keras.Sequential([keras.Input((128,)), keras.layers.Dense(1024, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
checkpoints = {}


def keep(epoch, logs):
    checkpoints[f"epoch {epoch}"] = (logs["loss"], model.get_weights())  # leak: growing_history


model.fit(x, x[:, :1], epochs=80, verbose=0, callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=keep)])
