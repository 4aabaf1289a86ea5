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

def build(normalisation=layers.LayerNormalization):
    return keras.Sequential([
        keras.Input((64, 64, 3)),
        layers.Conv2D(32, 3, activation="relu"), normalisation(),
        layers.Conv2D(32, 3, activation="relu"), normalisation(),
        layers.GlobalAveragePooling2D(), layers.Dense(10),
    ])

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
model = build(layers.BatchNormalization)
model.compile(optimizer, loss_function)
model.fit(x, y, batch_size=64, epochs=2, verbose=0)
""",
}


def results(text: str) -> tuple[list[str], list[float]]:
    *printed, last = text.strip().splitlines()
    return printed, json.loads(last)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_trains_what_it_would_have_trained(python: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "train.py").write_text(BEGIN + SCRIPTS[name] + END)
    plain = python("train.py", cwd=str(tmp_path))
    assert plain.returncode == 0, plain.stderr[-2000:]
    ours = python("-m", "fitroom", "run", "--budget", "84MiB", "train.py", cwd=str(tmp_path))
    assert ours.returncode == 0, ours.stderr[-2000:]
    assert "a step ran out of memory once" in ours.stderr, "it did not run out, or again and again"
    printed, numbers = results(ours.stdout)
    expected, wanted = results(plain.stdout)
    assert printed == expected
    assert numbers == pytest.approx(wanted, rel=1e-4)
