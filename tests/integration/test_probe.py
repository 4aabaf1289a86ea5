"""Does slicing keep the math? The probe tells, case by case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

from fitroom.steps.model_step import model_step
from fitroom.steps.own_step import OwnStep
from tests import own_cases as own

X, Y = own.ROWS[:16], own.CLASSES[:16]


class Stepping(keras.Model):
    """A model whose own train_step minimises `objective(model, x, y)`."""

    def __init__(self, objective: Callable[..., Any], layers: list[Any] | None = None) -> None:
        super().__init__()
        self.net = keras.Sequential(layers or [kl.Dense(6, "relu"), kl.Dense(3)])
        self.objective = objective

    def call(self, x: Any, training: bool = False) -> Any:
        return self.net(x, training=training)

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.objective(self, x, y)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


def cross_entropy(model: Any, x: Any, y: Any) -> Any:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)(y, model(x, training=True))


def summed(model: Any, x: Any, y: Any) -> Any:
    return tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True)))


def regularised(model: Any, x: Any, y: Any) -> Any:
    return cross_entropy(model, x, y) + 0.1 * sum(tf.nn.l2_loss(one) for one in model.trainable_variables)


def root(model: Any, x: Any, y: Any) -> Any:
    return tf.sqrt(tf.reduce_mean(tf.square(model(x, training=True))))


def hardest(model: Any, x: Any, y: Any) -> Any:
    return tf.reduce_max(tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True)))


def contrastive(model: Any, x: Any, y: Any) -> Any:
    one = tf.math.l2_normalize(model(x, training=True), axis=1)
    other = tf.math.l2_normalize(model(x * 1.1 + 0.05, training=True), axis=1)
    labels = tf.range(tf.shape(one)[0])
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, one @ tf.transpose(other)))


def triplet(model: Any, x: Any, y: Any) -> Any:
    """The hardest negative of the batch."""
    embedded = model(x, training=True)
    distances = tf.reduce_sum(tf.square(embedded[:, None] - embedded[None]), -1)
    same = tf.cast(tf.equal(y[:, None], y[None]), tf.float32)
    farthest, nearest = tf.reduce_max(distances * same, 1), tf.reduce_min(distances + 1e3 * same, 1)
    return tf.reduce_mean(tf.nn.relu(farthest - nearest + 1.0))


def shuffled(model: Any, x: Any, y: Any) -> Any:
    """Mixup: every sample with another one."""
    return cross_entropy(model, 0.7 * x + 0.3 * tf.random.shuffle(x), y)


def ctc(model: Any, x: Any, y: Any) -> Any:
    logits = tf.reshape(model(x, training=True), [-1, 6, 4])
    labels = tf.stack([y % 2 + 1, y % 3 + 1], axis=1)
    return keras.losses.CTC()(labels, logits)


def noisy(model: Any, x: Any, y: Any) -> Any:
    return cross_entropy(model, x + tf.random.normal(tf.shape(x)), y)


CASES: dict[str, tuple[Any, list[Any] | None, bool]] = {
    "cross-entropy": (cross_entropy, None, True),
    "sum": (summed, None, True),
    "regularised": (regularised, None, True),
    "noise": (noisy, None, True),
    "dropout": (cross_entropy, [kl.Dense(6, "relu"), kl.Dropout(0.5), kl.Dense(3)], True),
    "ctc": (ctc, [kl.Dense(24)], True),
    "group-norm": (cross_entropy, [kl.Dense(6), kl.GroupNormalization(2), kl.Dense(3)], True),
    "layer-norm": (cross_entropy, [kl.Dense(6), kl.LayerNormalization(), kl.Dense(3)], True),
    "frozen-batch-norm": (cross_entropy, [kl.Dense(6), kl.BatchNormalization(trainable=False), kl.Dense(3)], True),
    "batch-norm": (cross_entropy, [kl.Dense(6), kl.BatchNormalization(), kl.Dense(3)], False),
    "synchronised-batch-norm": (
        cross_entropy,
        [kl.Dense(6), kl.BatchNormalization(synchronized=True), kl.Dense(3)],
        False,
    ),
    "root": (root, None, False),
    "maximum": (hardest, None, False),
    "contrastive": (contrastive, None, False),
    "triplet": (triplet, None, False),
    "mixup": (shuffled, None, False),
}


def probed(model: Any, name: str = "train_step") -> list[Any]:
    """What the probe alone says, whatever structure would tell."""
    step = model_step(model, name)
    data = (tf.constant(X), tf.constant(Y))
    before = {v.path: np.asarray(v.value).copy() for v in model.variables}
    if isinstance(step, OwnStep):
        step._structural = list
    found = step.obstacles(data)
    for variable in model.variables:
        if variable.path in before:
            np.testing.assert_array_equal(before[variable.path], np.asarray(variable.value))
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_probe_tells_rightly(name: str) -> None:
    objective, layers, keeps_the_math = CASES[name]
    keras.utils.set_random_seed(1)
    model = Stepping(objective, layers)
    model.compile(keras.optimizers.SGD(0.1))
    model(X[:2])
    found = probed(model)
    assert (found == []) is keeps_the_math, found
    assert keeps_the_math or "mixes samples" in str(found[0])


def test_a_gan_and_a_vae_keep_the_math() -> None:
    for make in (own.gan, own.vae):
        assert probed(make(keras.optimizers.Adam)) == []


class Centred(kl.Layer):
    """Looks at the whole batch."""

    def call(self, x: Any) -> Any:
        return x - tf.reduce_mean(x, axis=0, keepdims=True)


class Doubled(kl.Layer):
    """Looks at one sample."""

    def call(self, x: Any) -> Any:
        return x * 2


@pytest.mark.parametrize(
    ("layer", "loss", "keeps_the_math"),
    [
        (Doubled(), "mse", True),
        (Centred(), "mse", False),
        (kl.Lambda(lambda x: x / (1e-3 + tf.reduce_max(x))), "mse", False),
        (kl.Lambda(lambda x: x + 1), "mse", True),
        (Doubled(), lambda y, p: tf.reduce_mean(tf.square(y - p)) ** 2, False),
        (Doubled(), lambda y, p: tf.reduce_mean(tf.abs(y - p), axis=-1), True),
    ],
    ids=["own", "own-mixing", "lambda-mixing", "lambda", "loss-mixing", "loss"],
)
def test_the_probe_tells_rightly_of_layers_and_losses_in_fit(layer: Any, loss: Any, keeps_the_math: bool) -> None:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((12,)), kl.Dense(6), layer, kl.Dense(1)])
    model.compile("sgd", loss)
    assert (probed(model) == []) is keeps_the_math


def test_where_structure_tells_nothing_is_tried() -> None:
    model = keras.Sequential([keras.Input((12,)), kl.Dense(6), kl.Dropout(0.5), kl.Dense(1)])
    model.compile("sgd", "mse")
    step = model_step(model, "train_step")
    assert step.obstacles(None) == []  # no data is needed, because none is run
