"""Trainings of many kinds, one after the other, in deterministic mode. What came of them is written to out.json.

Usage: python resumed_models.py ALL PAUSE. It knows nothing of fitroom.
"""

import json
import sys
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from tensorflow.core.util import event_pb2

PAUSE = float(sys.argv[2])
keras.utils.set_random_seed(3)
tf.config.experimental.enable_op_determinism()
x = np.random.rand(96, 12).astype("float32")
y = (x.sum(1) > 6).astype("float32")
results = []


class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(PAUSE)


def note(name, model, history, **more):
    variables = [*model.variables, *getattr(model, "others", [])]
    for optimizer in getattr(model, "optimizers", [model.optimizer]):
        variables += optimizer.variables
    values = [np.asarray(one.numpy(), "float64").tolist() for one in variables]
    results.append({"name": name, "history": history.history, "epochs": history.epoch, "values": values, **more})


class Gan(keras.Model):
    """Two optimizers, a step of its own, a variable that Keras does not know of, nothing built before it trains."""

    def __init__(self):
        super().__init__()
        self.maker = keras.Sequential([layers.Dense(12), layers.Dropout(0.2)])
        self.judge = keras.Sequential([layers.Dense(8, "relu"), layers.Dense(1)])
        self.seen = tf.Variable(0, trainable=False, dtype=tf.int64)
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.seeds = keras.random.SeedGenerator(7)

    def compile(self):
        super().compile()
        self.maker_optimizer = keras.optimizers.Adam(0.01)
        self.judge_optimizer = keras.optimizers.RMSprop(0.01)

    @property
    def optimizers(self):
        return [self.maker_optimizer, self.judge_optimizer]

    @property
    def others(self):
        return [self.seen]

    @property
    def metrics(self):
        return [self.loss_tracker]

    def train_step(self, real):
        noise = keras.random.normal((tf.shape(real)[0], 4), seed=self.seeds)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self.judge(self.maker(noise, training=True))) - tf.reduce_mean(self.judge(real))
        weights = self.judge.trainable_variables
        self.judge_optimizer.apply(tape.gradient(loss, weights), weights)
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(self.judge(self.maker(noise, training=True)))
        weights = self.maker.trainable_variables
        self.maker_optimizer.apply(tape.gradient(loss, weights), weights)
        self.seen.assign_add(tf.cast(tf.shape(real)[0], tf.int64))
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}


def gan():
    model = Gan()
    model.compile()
    history = model.fit(
        tf.data.Dataset.from_tensor_slices(x).shuffle(96).batch(8), epochs=3, verbose=0, callbacks=[Slow()]
    )
    note("gan", model, history)


def small(*more, **compiled):
    model = keras.Sequential([layers.Dense(16, "relu"), layers.Dropout(0.2), layers.Dense(1, dtype="float32"), *more])
    model.compile(keras.optimizers.Adam(0.01, use_ema=compiled.pop("use_ema", False)), "mse", **compiled)
    return model


def several_at_once():
    model = small(steps_per_execution=3)
    history = model.fit(x, y, batch_size=8, epochs=4, verbose=0, callbacks=[Slow()], validation_split=0.2)
    note("several at once", model, history)


def one_step_epochs():
    model = small(metrics=["mae"])
    callbacks = keras.callbacks.CallbackList([Slow()], add_history=True, model=model)
    history = model.fit(x, y, batch_size=96, epochs=20, verbose=0, callbacks=callbacks)
    note("epochs of one step", model, history)


def mixed():
    keras.config.set_dtype_policy("mixed_float16")
    model = small()
    keras.config.set_dtype_policy("float32")
    note("mixed precision", model, model.fit(x, y, batch_size=8, epochs=2, verbose=0, callbacks=[Slow()]))


def twice():
    model = small(use_ema=True)
    model.fit(x, y, batch_size=8, epochs=2, verbose=0, callbacks=[Slow()])
    history = model.fit(x[:48], y[:48], batch_size=8, epochs=4, initial_epoch=1, verbose=0, callbacks=[Slow()])
    note("the same model twice", model, history, evaluated=model.evaluate(x, y, verbose=0))


def callbacks():
    model = small(metrics=["mae"])
    model.build((None, 12))
    best = keras.callbacks.ModelCheckpoint("best.weights.h5", "loss", save_best_only=True, save_weights_only=True)
    board = keras.callbacks.TensorBoard("board", update_freq=1)
    backup = keras.callbacks.BackupAndRestore("backup")
    own = keras.callbacks.History()
    history = model.fit(
        x, y, batch_size=8, epochs=3, verbose=0, shuffle=False, callbacks=[best, board, backup, own, Slow()]
    )
    model.load_weights("best.weights.h5")
    note("callbacks", model, history, best=best.best, own=own.history, board=on_board("board/train"))


def on_board(folder):
    """What TensorBoard shows: each value's name and step."""
    shown = set()
    for path in Path(folder).glob("events*"):
        for record in tf.data.TFRecordDataset(str(path)):
            event = event_pb2.Event.FromString(record.numpy())
            shown |= {(value.tag, event.step) for value in event.summary.value}
    return sorted(shown)


for training in (gan, several_at_once, one_step_epochs, mixed, twice, callbacks):
    print(training.__name__, flush=True)
    training()
Path("out.json").write_text(json.dumps(results))
