"""Two trainings in deterministic mode, with shuffling, dropout, Adam and callbacks that remember things.

Usage: python resumed.py INPUT PAUSE: what the data come from, and the seconds to sleep after each step. What came of it
is written to out.json. It knows nothing of fitroom.
"""

import json
import random
import sys
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

INPUT, PAUSE = sys.argv[1], float(sys.argv[2])
SAMPLES, BATCH = 160, 16

keras.utils.set_random_seed(3)
if "fast" not in INPUT:
    tf.config.experimental.enable_op_determinism()
x = np.random.rand(SAMPLES, 12).astype("float32")
y = (x.sum(1) > 6).astype("float32")


class Shuffled(keras.utils.PyDataset):
    """Draws from NumPy's global generator and from one of its own, between and within epochs."""

    def __init__(self):
        super().__init__()
        self.order = np.arange(SAMPLES)
        self.rng = np.random.default_rng(5)

    def __len__(self):
        return SAMPLES // BATCH

    def __getitem__(self, index):
        rows = self.order[index * BATCH : (index + 1) * BATCH]
        noise = np.random.normal(0, 0.01, (BATCH, 12)) + self.rng.random() * 0.01
        return x[rows] + noise.astype("float32"), y[rows]

    def on_epoch_end(self):
        np.random.shuffle(self.order)


def generated():
    rng = np.random.default_rng(1)
    while True:
        rows = rng.integers(0, SAMPLES, BATCH)
        yield x[rows], y[rows]


def data():
    shuffled = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(SAMPLES)
    if INPUT == "arrays":
        return {"x": x, "y": y, "batch_size": BATCH, "validation_data": (x[:64], y[:64])}
    if INPUT == "twice":
        return {"x": shuffled.repeat(2).batch(BATCH)}
    if INPUT == "concatenated":
        return {"x": shuffled.take(64).concatenate(shuffled.skip(64).shuffle(96)).batch(BATCH)}
    if INPUT.startswith("dataset"):  # trains and validates on what one shuffle gives
        return {"x": shuffled.skip(32).batch(BATCH), "validation_data": shuffled.take(32).batch(BATCH)}
    if INPUT == "repeated":
        return {"x": shuffled.repeat().batch(BATCH), "steps_per_epoch": 7}
    if INPUT == "filtered":  # nobody knows how many there are
        return {"x": shuffled.filter(lambda one, _: one[0] < 0.9).batch(BATCH)}
    if INPUT == "pydataset":
        return {"x": Shuffled(), "validation_data": Shuffled()}
    return {"x": generated(), "steps_per_epoch": 10}


class Remembers(keras.callbacks.Callback):
    """As people write them."""

    def __init__(self, losses):
        super().__init__()
        self.losses = losses  # which the script holds, too

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(float(logs["loss"]))
        time.sleep(PAUSE)

    def on_epoch_end(self, epoch, logs=None):
        np.random.rand()  # from where the data draw, too


results = []
for width in (16, 24):
    model = keras.Sequential(
        [
            keras.Input((12,)),
            layers.Dense(width, activation="relu"),
            layers.Dropout(0.3),
            layers.BatchNormalization(),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"])
    losses = []
    remembers = Remembers(losses)
    stops = keras.callbacks.EarlyStopping("loss", patience=3, restore_best_weights=True)
    callbacks = [
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9),
        keras.callbacks.CSVLogger(f"log-{width}.csv"),
        keras.callbacks.ReduceLROnPlateau("loss", patience=1, min_delta=0.05, cooldown=1),
        stops,
        keras.callbacks.ModelCheckpoint("best.weights.h5", "loss", save_best_only=True, save_weights_only=True),
        remembers,
    ]
    print("training", width, flush=True)
    history = model.fit(**data(), epochs=4, verbose=0, callbacks=callbacks)
    results.append(
        {
            "history": history.history,
            "epochs": history.epoch,
            "losses": losses,
            "best": [stops.best, stops.best_epoch, stops.wait],
            "next random numbers": [float(np.random.rand()), random.random()],
            "weights": [weight.tolist() for weight in model.get_weights()],
            "optimizer": [variable.numpy().tolist() for variable in model.optimizer.variables],
            "log": Path(f"log-{width}.csv").read_text(),
        }
    )
    model.load_weights("best.weights.h5")  # this training's, though the next one writes there, too
    results[-1]["best weights"] = [weight.tolist() for weight in model.get_weights()]
Path("out.json").write_text(json.dumps(results))
