"""A second model takes the first one's weights now and then."""

import keras
import numpy as np


def build():
    model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(4)])
    model.compile("adam", "mse")
    return model


online, target = build(), build()
rewards = []
for step in range(900):
    states = np.random.rand(64, 16).astype("float32")
    targets = target.predict_on_batch(states)
    online.train_on_batch(states, targets)
    rewards.append(float(targets.mean()))
    if step % 100 == 99:
        target.set_weights(online.get_weights())
