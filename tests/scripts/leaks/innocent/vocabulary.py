"""A vocabulary is built as words come, and no word is new in the end."""

import random

import keras
import numpy as np

random.seed(1)
words = ["word%d" % number for number in range(20_000)]
vocabulary, vectors = {}, {}
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(32), keras.layers.Dense(1)])
model.compile("sgd", "mse")


def vector(word):
    if word not in vectors:
        vocabulary[word] = len(vocabulary)
        vectors[word] = np.random.rand(64).astype("float32")
    return vectors[word]


for step in range(1500):
    chosen = [words[min(int(random.expovariate(1) * 1500), 19_999)] for _ in range(64)]
    model.train_on_batch(np.stack([vector(word) for word in chosen]), np.zeros((64, 1), "float32"))
