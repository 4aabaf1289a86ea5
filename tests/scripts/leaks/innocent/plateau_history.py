"""Callbacks of Keras that keep numbers, with validation after each epoch."""

import keras
import numpy as np

x = np.random.rand(1024, 32).astype("float32")
y = x.sum(axis=1, keepdims=True)
model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse", metrics=["mae"])
history = model.fit(
    x,
    y,
    validation_split=0.25,
    epochs=60,
    batch_size=64,
    verbose=0,
    callbacks=[
        keras.callbacks.ReduceLROnPlateau(patience=2),
        keras.callbacks.EarlyStopping(patience=50, restore_best_weights=True),
        keras.callbacks.TerminateOnNaN(),
    ],
)
print(len(history.history["val_mae"]))
