"""The data are read once, shard by shard, into memory, and trained on from then on."""

import keras
import numpy as np

shards = []
model = keras.Sequential([keras.Input((256,)), keras.layers.Dense(32), keras.layers.Dense(1)])
model.compile("sgd", "mse")
for number in range(40):
    shards.append(np.random.rand(2048, 256).astype("float32"))
    model.train_on_batch(shards[-1], np.zeros((2048, 1), "float32"))
for epoch in range(20):
    for shard in shards:
        model.train_on_batch(shard, np.zeros((2048, 1), "float32"))
