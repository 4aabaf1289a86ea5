"""Every fold's model is kept, though only its score is used."""

import keras
import numpy as np

x = np.random.rand(128, 32).astype("float32")
y = np.random.rand(128, 1).astype("float32")
models = []
for fold in range(16):
    inputs = keras.Input((32,))
    outputs = keras.layers.Dense(1)(keras.layers.Dense(512)(inputs))
    model = keras.Model(inputs, outputs)
    model.compile("adam", "mse")
    model.fit(x, y, epochs=2, verbose=0)
    models.append(model)  # leak: models_in_loop
print(len(models))
