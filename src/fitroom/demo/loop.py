"""The script that ``fitroom demo`` watches: a loop of trainings, as anyone would write it. It knows nothing of fitroom.

Usage: python loop.py FOLDER, where the weights go.
"""

import sys
from pathlib import Path

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(7)
x = np.random.rand(256, 32, 32, 3).astype("float32")
y = np.random.randint(0, 10, 256)

for normalisation in (layers.LayerNormalization, layers.BatchNormalization):
    model = keras.Sequential([keras.Input((32, 32, 3))])
    for _ in range(5):
        model.add(layers.Conv2D(16, 3, padding="same", activation="relu"))
        model.add(normalisation())
    model.add(layers.GlobalAveragePooling2D())
    model.add(layers.Dense(10, activation="softmax"))
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), "sparse_categorical_crossentropy")
    losses = model.fit(x, y, batch_size=256, epochs=4, verbose=0).history["loss"]
    print(f"{normalisation.__name__}: loss {losses[0]:.3f} to {losses[-1]:.3f}", flush=True)
    np.savez(Path(sys.argv[1]) / f"{normalisation.__name__}.npz", *model.get_weights())
