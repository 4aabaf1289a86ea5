"""What the first step returns is still held when the second one runs, beside the slots. Budget: 150MiB"""

import keras
import numpy as np

x = np.random.rand(2048, 1024).astype("float32")
model = keras.Sequential([keras.Input((1024,)), keras.layers.Dense(2048), keras.layers.Dense(2048), keras.layers.Dense(8)])
model.compile("adam", "mse")
model.fit(x, x[:, :8], batch_size=1024, epochs=2, verbose=0, shuffle=False)  # leak: second_step
