"""Whole scripts under `fitroom run`, on a device that runs out: what they train is what they would have trained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Run

BEGIN = """
import json, sys
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(1)
random = np.random.default_rng(0)
x = random.random((64, 64, 64, 3), np.float32)
y = random.integers(0, 10, 64)

def build(normalisation=layers.LayerNormalization, blocks=2, filters=32):
    model = keras.Sequential([keras.Input((64, 64, 3))])
    for _ in range(blocks):
        model.add(layers.Conv2D(filters, 3, activation="relu"))
        model.add(normalisation())
    model.add(layers.GlobalAveragePooling2D())
    model.add(layers.Dense(10))
    return model

model = build()
optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
loss_function = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
"""

END = """
print(json.dumps([int(optimizer.iterations), *[float(abs(weight).sum()) for weight in model.get_weights()]]))
"""

STEP = """
    with tf.GradientTape() as tape:
        loss = loss_function(labels, model(images, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
"""

SCRIPTS = {
    "a function that says apply_gradients": f"""
@tf.function
def train_step(images, labels):{STEP}
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss
for _ in range(2):
    print(float(train_step(x, y)) > 0)
""",
    "a helper that applies": f"""
def update(gradients):
    optimizer.apply(gradients, model.trainable_variables)
@tf.function
def train_step(images, labels):{STEP}
    update(gradients)
    return loss
for _ in range(2):
    print(train_step(x, y).shape)
""",
    "a method": f"""
class Trainer:
    def __init__(self):
        self.steps = 0
    @tf.function
    def step(self, images, labels):{STEP}
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss
    def run(self):
        for images, labels in tf.data.Dataset.from_tensor_slices((x, y)).batch(64).repeat(2):
            self.step(images, labels)
            self.steps += 1
trainer = Trainer()
trainer.run()
print(trainer.steps)
""".replace("\n    with", "\n        with")
    .replace("\n        loss =", "\n            loss =")
    .replace("\n    gradients =", "\n        gradients ="),
    "a function with a signature": f"""
@tf.function(input_signature=[tf.TensorSpec([None, 64, 64, 3]), tf.TensorSpec([None], tf.int64)])
def train_step(images, labels):{STEP}
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
train_step(x, y)
train_step(tf.constant(x[:40]), tf.constant(y[:40]))
""",
    "a function that trains or does not": f"""
def update(gradients):
    optimizer.apply(gradients, model.trainable_variables)
@tf.function
def step(images, labels, training):{STEP}
    if training:
        update(gradients)
    return loss
optimizer.build(model.trainable_variables)
print(float(step(x[:4], y[:4], False)) > 0)
for _ in range(2):
    step(x, y, True)
""",
    "train_on_batch": """
model.compile(optimizer, loss_function)
for _ in range(2):
    model.train_on_batch(x, y)
""",
    "fit with callbacks and validation": """
model.compile(optimizer, loss_function, metrics=["accuracy"])
seen = []
model.fit(x, y, batch_size=64, epochs=2, verbose=0, validation_data=(x, y), callbacks=[
    keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(sorted(logs))),
])
print(seen)
""",
    "batch normalisation": """
model = build(layers.BatchNormalization, 5, 16)
model.compile(optimizer, loss_function)
model.fit(x, y, batch_size=64, epochs=2, verbose=0)
""",
}


BUDGETS = {"batch normalisation": "170MiB"}
OTHERS_TELL = (
    "a function that says apply_gradients", "a helper that applies", "a function with a signature", "train_on_batch",
    "fit with callbacks and validation", "batch normalisation", "a method", "a function that trains or does not",
)  # fmt: skip


def results(text: str) -> tuple[list[str], list[float]]:
    *printed, last = text.strip().splitlines()
    return printed, json.loads(last)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.chaos) if name in OTHERS_TELL else name for name in SCRIPTS]
)
def test_a_script_trains_what_it_would_have_trained(python: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "train.py").write_text(BEGIN + SCRIPTS[name] + END)
    plain = python("train.py", cwd=str(tmp_path))
    assert plain.returncode == 0, plain.stderr[-2000:]
    budget = BUDGETS.get(name, "84MiB")
    ours = python("-m", "fitroom", "run", "--budget", budget, "train.py", cwd=str(tmp_path))
    assert ours.returncode == 0, ours.stderr[-2000:]
    often = "twice" if "validation" in name else "once"
    assert f"a step ran out of memory {often}" in ours.stderr, "it did not run out, or again and again"
    printed, numbers = results(ours.stdout)
    expected, wanted = results(plain.stdout)
    assert printed == expected
    assert numbers == pytest.approx(wanted, rel=1e-4)


def test_a_mistake_in_the_script_looks_as_under_plain_python(python: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        BEGIN
        + """
class Mistaken(layers.Layer):
    def call(self, inputs):
        raise ValueError("no such channel")
model = keras.Sequential([keras.Input((64, 64, 3)), Mistaken()])
""".replace("keras.Input((64, 64, 3)), ", "")
        + "model.compile(optimizer, 'mse')\nmodel.fit(x, y, verbose=0)\n"
    )
    plain = python("train.py", cwd=str(tmp_path))
    ours = python("-m", "fitroom", "run", "train.py", cwd=str(tmp_path))
    assert plain.returncode == ours.returncode == 1
    assert "no such channel" in plain.stderr
    said = [line for line in ours.stderr.splitlines() if not line.startswith("fitroom: ")]
    assert said == plain.stderr.splitlines()


AS_THEY_ARE = """
import gc, threading, weakref
import keras, numpy as np, tensorflow as tf
keras.utils.set_random_seed(1)
x, y = np.ones((8, 4), "float32"), np.ones((8, 1), "float32")
def build():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile("sgd", "mse")
    return model
def tried(name, function):
    try:
        result = function()
        result = [round(float(tf.reduce_sum(one)), 4) for one in tf.nest.flatten(result)]
    except Exception as error:
        result = type(error).__name__
    print(name, result)

class Scaled(keras.Sequential):
    def fit(self, x, y, **options):
        print("scaled", x.max())
        return super().fit(x / 10, y, **options)
    def predict(self, images):
        return super().predict(x=images, verbose=0)
scaled = Scaled([keras.Input((4,)), keras.layers.Dense(1, kernel_initializer="ones")])
scaled.compile("sgd", "mse")
tried("an override", lambda: scaled.fit(x, y, verbose=0).history["loss"])
tried("another", lambda: scaled.predict(x).sum())

model, optimizer = build(), keras.optimizers.SGD(0.1)
def loss_of(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a) - b) ** 2)
    return loss, tape.gradient(loss, model.trainable_variables)
def update(gradients):
    optimizer.apply(gradients, model.trainable_variables)
@tf.function
def inner(a, b):
    loss, gradients = loss_of(a, b)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss
@tf.function
def epoch(a, b):
    for _ in tf.range(3):
        inner(a, b)
    return optimizer.iterations
@tf.function
def conditional(a, b, flag):
    loss, gradients = loss_of(a, b)
    if flag:
        update(gradients)
    return loss
@tf.function
def counting(a, b):
    loss, gradients = loss_of(a, b)
    update(gradients)
    return loss, optimizer.iterations, model.trainable_variables[1]
@tf.function
def helped(a, b):
    loss, gradients = loss_of(a, b)
    update(gradients)
    return loss
tried("nested functions", lambda: epoch(tf.constant(x), tf.constant(y)))
tried("a condition", lambda: conditional(tf.constant(x), tf.constant(y), tf.constant(True)))
tried("variables in the result", lambda: [counting(x, y), counting(x, y)])
tried("a helper", lambda: [helped(x, y), helped(x, y)])

class Lazy(tf.Module):
    v = None
    @tf.function
    def step(self, a):
        if self.v is None:
            self.v = tf.Variable(2.0)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(a) * self.v
        lazy_optimizer.apply_gradients([(tape.gradient(loss, self.v), self.v)])
        return loss
lazy, lazy_optimizer = Lazy(), keras.optimizers.SGD(0.1)
tried("variables made while it runs", lambda: [lazy.step(tf.constant(x)), lazy.v])

@tf.function
def harmless(a):
    return tf.numpy_function(lambda b: (released.wait(20), b)[1], [a], tf.float32)
released = threading.Event()
thread = threading.Thread(target=lambda: tried("a thread", lambda: harmless(tf.constant(1.0))))
thread.start()
tried("fit beside it", lambda: build().fit(x, y, verbose=0).history["loss"])
released.set()
thread.join()

batch = tf.constant(x)
alive = weakref.ref(batch)
helped(batch, tf.constant(y))
del batch
gc.collect()
print("the batch is freed", alive() is None)
"""


def test_what_works_under_plain_python_works_the_same(python: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(AS_THEY_ARE)
    plain = python("train.py", cwd=str(tmp_path))
    ours = python("-m", "fitroom", "run", "train.py", cwd=str(tmp_path))
    assert plain.returncode == ours.returncode == 0, ours.stderr[-2000:]
    assert "Error" not in plain.stdout
    assert ours.stdout == plain.stdout
    assert "does not guard epoch" in ours.stderr
    assert "does not guard harmless" not in ours.stderr
