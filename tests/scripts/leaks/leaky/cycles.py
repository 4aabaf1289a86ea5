"""Samples that know the episode they are in, and episodes that know their samples."""

import keras
import numpy as np

model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile("sgd", "mse")


class Episode:
    def __init__(self):
        self.frames = np.random.rand(4096, 256)
        self.owner = None


class Agent:
    def __init__(self, episode):
        self.episode = episode
        episode.owner = self  # leak: reference_cycles


for step in range(120):
    episode = Episode()
    agent = Agent(episode)
    x = agent.episode.frames[:64, :32]
    model.train_on_batch(x, np.zeros((64, 1)))
