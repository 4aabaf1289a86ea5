"""Steps that Keras did not write, whole and to be compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers as kl

from tests import faults

GENERATOR = np.random.default_rng(11)
ROWS = GENERATOR.random((44, 12), np.float32)
CLASSES = GENERATOR.integers(0, 3, 44)


def _fault_layers(fault: faults.Fault | None, where: str) -> list[Any]:
    return [] if fault is None or where == "update" else [faults.layer(fault, where)]  # type: ignore[arg-type]


class VAE(keras.Model):
    """Sampling, two loss terms, trackers of its own."""

    def __init__(self, fault: faults.Fault | None = None, where: str = "forward") -> None:
        super().__init__()
        self.encoder = keras.Sequential([kl.Dense(8, "relu"), *_fault_layers(fault, where), kl.Dense(4)])
        self.decoder = keras.Sequential([kl.Dense(8, "relu"), kl.Dense(12)])
        self.seeds = keras.random.SeedGenerator(5)
        self.total = keras.metrics.Mean(name="loss")
        self.kl = keras.metrics.Mean(name="kl")
        self.random = True

    @property
    def metrics(self) -> list[Any]:
        return [self.total, self.kl]

    def call(self, x: Any, training: bool = False) -> Any:
        mean, log_variance = tf.split(self.encoder(x, training=training), 2, axis=1)
        noise = keras.random.normal(tf.shape(mean), seed=self.seeds) if self.random else 0.3
        return self.decoder(mean + tf.exp(0.5 * log_variance) * noise, training=training), mean, log_variance

    def losses_of(self, x: Any, training: bool) -> tuple[Any, Any]:
        decoded, mean, log_variance = self(x, training=training)
        error = tf.reduce_mean(tf.reduce_sum(tf.square(decoded - x), axis=1))
        divergence = -0.5 * tf.reduce_mean(tf.reduce_sum(1 + log_variance - mean**2 - tf.exp(log_variance), axis=1))
        return error + divergence, divergence

    def train_step(self, data: Any) -> Any:
        x = data[0] if isinstance(data, tuple) else data
        with tf.GradientTape() as tape:
            loss, divergence = self.losses_of(x, training=True)
        gradients = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
        self.total.update_state(loss)
        self.kl.update_state(divergence)
        return {metric.name: metric.result() for metric in self.metrics}

    def test_step(self, data: Any) -> Any:
        x = data[0] if isinstance(data, tuple) else data
        loss, divergence = self.losses_of(x, training=False)
        self.total.update_state(loss)
        self.kl.update_state(divergence)
        return {metric.name: metric.result() for metric in self.metrics}


class GAN(keras.Model):
    """Two optimizers; the discriminator is trained twice before the generator."""

    def __init__(self, fault: faults.Fault | None = None, where: str = "forward") -> None:
        super().__init__()
        self.generator = keras.Sequential([keras.Input((4,)), kl.Dense(8, "relu"), kl.Dense(12)])
        self.discriminator = keras.Sequential(
            [keras.Input((12,)), kl.Dense(8, "relu"), *_fault_layers(fault, where), kl.Dense(1)]
        )
        self.d_loss = keras.metrics.Mean(name="d_loss")
        self.g_loss = keras.metrics.Mean(name="g_loss")
        self.seeds = keras.random.SeedGenerator(5)
        self.random = True

    def compile(self, d_optimizer: Any, g_optimizer: Any, **options: Any) -> None:
        super().compile(**options)
        self.d_optimizer, self.g_optimizer = d_optimizer, g_optimizer

    @property
    def metrics(self) -> list[Any]:
        return [self.d_loss, self.g_loss]

    def noise(self, x: Any) -> Any:
        shape = (tf.shape(x)[0], 4)
        return keras.random.normal(shape, seed=self.seeds) if self.random else tf.ones(shape) * x[:, :4]

    def train_step(self, data: Any) -> Any:
        x = data[0] if isinstance(data, tuple) else data
        cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True)
        for _ in range(2):
            with tf.GradientTape() as tape:
                real, fake = self.discriminator(x), self.discriminator(self.generator(self.noise(x)))
                d_loss = cross_entropy(tf.ones_like(real), real) + cross_entropy(tf.zeros_like(fake), fake)
            weights = self.discriminator.trainable_variables
            self.d_optimizer.apply(tape.gradient(d_loss, weights), weights)
        with tf.GradientTape() as tape:
            fake = self.discriminator(self.generator(self.noise(x)))
            g_loss = cross_entropy(tf.ones_like(fake), fake)
        weights = self.generator.trainable_variables
        self.g_optimizer.apply_gradients(zip(tape.gradient(g_loss, weights), weights, strict=True))
        self.d_loss.update_state(d_loss)
        self.g_loss.update_state(g_loss)
        return {"d_loss": self.d_loss.result(), "g_loss": self.g_loss.result()}


class Momentum(keras.Model):
    """A slow copy of the weights, moved after the update: the step looks at what its update did."""

    def __init__(self) -> None:
        super().__init__()
        self.fast = keras.Sequential([keras.Input((12,)), kl.Dense(3)])
        self.slow = keras.Sequential([keras.Input((12,)), kl.Dense(3)])
        self.slow.trainable = False
        self.steps = self.add_weight(shape=(), initializer="zeros", trainable=False, name="steps")

    def call(self, x: Any) -> Any:
        return self.fast(x)

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.fast(x) - self.slow(x) - tf.cast(y, tf.float32)[:, None]))
        self.optimizer.apply(tape.gradient(loss, self.fast.trainable_variables), self.fast.trainable_variables)
        for slow, fast in zip(self.slow.variables, self.fast.variables, strict=True):
            slow.assign(0.9 * slow + 0.1 * fast)
        self.steps.assign_add(1.0)
        return {"loss": loss}


def vae(optimizer: Callable[[], Any], fault: faults.Fault | None = None, where: str = "forward", **options: Any) -> Any:
    keras.utils.set_random_seed(3)
    model = VAE(fault, where)
    model.random = options.pop("random", True)
    model.compile(optimizer(), **options)
    armed(fault, False)
    model(ROWS[:2])
    model.optimizer.build(model.trainable_variables)
    if fault is not None and where == "update":
        faults.faulty_update(model.optimizer, 3, fault)
    armed(fault, True)
    return model


def gan(optimizer: Callable[[], Any], fault: faults.Fault | None = None, where: str = "forward", **options: Any) -> Any:
    keras.utils.set_random_seed(3)
    model = GAN(fault, where)
    model.random = options.pop("random", True)
    model.compile(optimizer(), optimizer(), **options)
    model.d_optimizer.build(model.discriminator.trainable_variables)
    model.g_optimizer.build(model.generator.trainable_variables)
    if fault is not None and where == "update":
        faults.faulty_update(model.d_optimizer, 2, fault)
    return model


def momentum(optimizer: Callable[[], Any], **options: Any) -> Any:
    keras.utils.set_random_seed(3)
    model = Momentum()
    model.compile(optimizer(), **options)
    return model


def armed(fault: faults.Fault | None, value: bool) -> None:
    if fault is not None:
        fault.armed = value


def everything(model: Any) -> dict[str, np.ndarray]:
    """Every variable of a model, its optimizers and its metrics."""
    optimizers = [
        one for one in (getattr(model, name, None) for name in ("optimizer", "d_optimizer", "g_optimizer")) if one
    ]
    variables = [*model.variables, *model.metrics_variables, *(v for one in optimizers for v in one.variables)]
    return {f"{index} {v.path}": np.asarray(v.value).copy() for index, v in enumerate(variables)}
