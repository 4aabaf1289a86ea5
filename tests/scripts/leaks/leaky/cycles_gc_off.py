"""Python's collector is off "for speed", and nodes of a tree know their parents."""

import gc

import keras
import numpy as np

gc.disable()


class Node:
    def __init__(self, parent=None):
        self.parent = parent
        self.board = np.zeros((256, 256))
        self.children = []

    def expand(self):
        child = Node(self)
        self.children.append(child)  # leak: reference_cycles
        return child


model = keras.Sequential([keras.Input((256,)), keras.layers.Dense(32), keras.layers.Dense(1)])
model.compile("sgd", "mse")
for game in range(500):
    root = Node()
    leaf = root.expand().expand()
    model.train_on_batch(leaf.board, np.zeros((256, 1)))
