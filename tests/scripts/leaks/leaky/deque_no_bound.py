"""A replay memory in a deque, whose bound was forgotten."""

import random
from collections import deque

import keras
import numpy as np


class Agent:
    def __init__(self):
        self.memory = deque()
        self.model = keras.Sequential([keras.Input((2048,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4)])
        self.model.compile("adam", "mse")

    def remember(self, state, action, reward, after):
        self.memory.append((state, action, reward, after))  # leak: growing_history

    def learn(self, size=32):
        if len(self.memory) < size:
            return
        chosen = random.sample(self.memory, size)
        states = np.stack([one[0] for one in chosen])
        self.model.train_on_batch(states, np.zeros((size, 4), "float32"))


agent = Agent()
state = np.random.rand(2048).astype("float32")
for step in range(1200):
    after = np.random.rand(2048).astype("float32")
    agent.remember(state, step % 4, 1.0, after)
    agent.learn()
    state = after
