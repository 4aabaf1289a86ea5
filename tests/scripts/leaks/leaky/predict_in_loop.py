"""One sample at a time, with predict."""

import keras
import numpy as np

model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(16), keras.layers.Dense(1)])
total = 0.0
for number in range(700):
    total += float(model.predict(np.random.rand(1, 16), verbose=0)[0, 0])  # leak: predict_in_loop
print(total)
