"""Models on several logical CPUs, and what there is of them on every replica."""

from __future__ import annotations

import functools
import os
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

from fitroom.steps.state import native
from fitroom.training.guarded_step import GuardedStep
from tests import guard_cases, own_cases

REPLICAS = int(os.environ.get("REPLICAS", "2"))


@functools.cache
def mirrored() -> Any:
    """The one strategy: TensorFlow mixes up what the replicas of a second one in the same process exchange."""
    return tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(REPLICAS)])


def make(name: str, optimizer: str = "adam", *given: Any, still: bool = False, **options: Any) -> Any:
    """A model of the guard's tests, on replicas; `still` without its random numbers."""
    with mirrored().scope():
        model = guard_cases.make(name, optimizer, *given, **options)
    for layer in model._flatten_layers() if still else ():
        for rate in ("rate", "_dropout"):
            if hasattr(layer, rate):
                setattr(layer, rate, 0.0)
    return model


def blocks(*, synchronized: bool) -> Any:
    """Batch normalisation, whose statistics replicas exchange, and dropout."""
    keras.utils.set_random_seed(2)
    with mirrored().scope():
        x = image = keras.Input((8, 8, 3))
        for _ in range(4):
            x = kl.ReLU()(kl.BatchNormalization(synchronized=synchronized)(kl.Conv2D(6, 3, padding="same")(x)))
        x = kl.Dropout(0.2)(kl.GlobalAveragePooling2D()(x))
        model = guard_cases.compiled(keras.Model(image, kl.Dense(5)(x)), keras.optimizers.Adam(0.01))
        model.optimizer.build(model.trainable_variables)
    return model


class CallableGAN(own_cases.GAN):
    """Under a strategy Keras calls every model once."""

    def call(self, x: Any) -> Any:
        return self.discriminator(x)


def own(name: str) -> Any:
    """A model with a `train_step` of its own, without random numbers."""
    with mirrored().scope():
        if name == "momentum":
            return own_cases.momentum(guard_cases.OPTIMIZERS["adam"])
        if name == "vae":
            return own_cases.vae(guard_cases.OPTIMIZERS["adam"], random=False)
        keras.utils.set_random_seed(3)
        model = CallableGAN()
        model.random = False
        model.compile(guard_cases.OPTIMIZERS["adam"](), guard_cases.OPTIMIZERS["adam"]())
        model.d_optimizer.build(model.discriminator.trainable_variables)
        model.g_optimizer.build(model.generator.trainable_variables)
        return model


def everywhere(model: Any) -> dict[str, np.ndarray]:
    """Every variable that a step may change, on every replica."""
    optimizers = [getattr(model, name, None) for name in ("optimizer", "d_optimizer", "g_optimizer")]
    slots = [variable for one in optimizers if one is not None for variable in one.variables]
    variables = native([*model.variables, *model.metrics_variables, *slots])
    return {f"{number} {one.name}": one.numpy() for number, one in enumerate(variables)}


def updates(optimizer: Any) -> int:
    return int(native([optimizer.iterations])[0].numpy())


def watch(model: Any, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What each attempt that failed has left behind: nothing, if all is well."""
    left: list[list[str]] = []
    before: dict[str, np.ndarray] = {}
    plain_attempt, plain_rung = GuardedStep._attempt, GuardedStep._next_rung

    def attempt(self: Any, *args: Any) -> Any:
        before.update(everywhere(model))
        return plain_attempt(self, *args)

    def next_rung(self: Any, *args: Any) -> Any:
        left.append(guard_cases.changed(before, everywhere(model)))
        return plain_rung(self, *args)

    monkeypatch.setattr(GuardedStep, "_attempt", attempt)
    monkeypatch.setattr(GuardedStep, "_next_rung", next_rung)
    return left


def apart(one: Any, other: Any) -> float:
    """The largest difference between two models' weights, relative to the largest weight of its variable.

    Weights whose gradient is zero but for rounding, such as an attention's key bias, count by what they are worth.
    """
    pairs = zip(one.get_weights(), other.get_weights(), strict=True)
    return max(float(np.max(np.abs(a - b)) / max(np.max(np.abs(a)), 1e-2)) for a, b in pairs if a.dtype.kind == "f")
