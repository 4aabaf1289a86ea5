"""A training on several replicas in deterministic mode, with shuffling, dropout and batch normalisation.

Usage: python replicated.py REPLICAS PAUSE: on how many logical CPUs, and the seconds to sleep after each step. What
came of it is written to out.json. It knows nothing of fitroom.
"""

import json
import os
import sys
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

REPLICAS, PAUSE = int(os.environ.get("REPLICAS", sys.argv[1])), float(sys.argv[2])
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * REPLICAS)
keras.utils.set_random_seed(3)
tf.config.experimental.enable_op_determinism()
strategy = tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(REPLICAS)])
x = np.random.rand(75, 12).astype("float32")
y = (x.sum(1) > 6).astype("float32")


class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(PAUSE)


with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input((12,)),
            layers.Dense(16, activation="relu"),
            layers.Dropout(0.3),
            layers.BatchNormalization(),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"])
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(75, seed=1).batch(16)
print("training", flush=True)
history = model.fit(dataset, validation_data=(x[:32], y[:32]), epochs=4, verbose=0, callbacks=[Slow()])
slots = [keras.ops.convert_to_numpy(variable).tolist() for variable in model.optimizer.variables]
weights = [weight.tolist() for weight in model.get_weights()]
Path("out.json").write_text(json.dumps([{"history": history.history, "weights": weights, "optimizer": slots}]))
