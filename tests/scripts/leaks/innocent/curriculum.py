"""Images become larger, in five stages, each of which is traced once."""

import keras
import numpy as np

model = keras.Sequential(
    [
        keras.Input((None, None, 3)),
        keras.layers.Conv2D(8, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(1),
    ]
)
model.compile("adam", "mse")
for size in (8, 12, 16, 24, 32):
    x = np.random.rand(128, size, size, 3).astype("float32")
    model.fit(x, np.zeros((128, 1)), epochs=8, batch_size=16, verbose=0)
