"""Models whose activations are computed again, small ones with everything in them, and graphs at random."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers as kl

from tests.guard_cases import compiled

GENERATOR = np.random.default_rng(11)
IMAGES = GENERATOR.random((24, 16, 16, 3), np.float32)
TOKENS = GENERATOR.integers(0, 40, (24, 12)).astype(np.int32)  # 0 is padding
LABELS = GENERATOR.integers(0, 5, 24)
MAPS = GENERATOR.integers(0, 2, (24, 16, 16))
BATCH = 8


def conv(x: Any, filters: int, size: int = 3, **options: Any) -> Any:
    x = kl.Conv2D(filters, size, padding="same", use_bias=False, **options)(x)
    return kl.ReLU()(kl.BatchNormalization(momentum=0.9)(x))


def residual() -> Any:
    image = keras.Input((16, 16, 3))
    x = conv(image, 8)
    for _ in range(4):
        x = kl.Dropout(0.1)(kl.Add()([x, conv(conv(x, 8), 8)]))
    return keras.Model(image, kl.Dense(5)(kl.GlobalAveragePooling2D()(x)))


def unet() -> Any:
    image = keras.Input((16, 16, 3))
    x, skips = image, []
    for filters in (4, 8):
        x = conv(conv(x, filters), filters)
        skips.append(x)
        x = kl.MaxPool2D()(x)
    x = conv(x, 16)
    for filters in (8, 4):
        x = kl.Concatenate()([kl.Conv2DTranspose(filters, 2, strides=2)(x), skips.pop()])
        x = conv(conv(x, filters), filters)
    return keras.Model(image, kl.Conv2D(2, 1)(x))


def transformer() -> Any:
    tokens = keras.Input((12,), dtype="int32")
    x = kl.Embedding(40, 8, mask_zero=True)(tokens)
    for _ in range(3):
        h = kl.LayerNormalization()(x)
        x = x + kl.MultiHeadAttention(2, 4, dropout=0.1)(h, h, use_causal_mask=True)
        h = kl.Dense(8)(kl.Dense(16, "gelu")(kl.LayerNormalization()(x)))
        x = x + kl.Dropout(0.1)(h)
    return keras.Model(tokens, kl.Dense(5)(kl.GlobalAveragePooling1D()(x)))


def lstm() -> Any:
    return keras.Sequential([
        keras.Input((12,)), kl.Embedding(40, 6, mask_zero=True), kl.LSTM(6, return_sequences=True, dropout=0.1),
        kl.LayerNormalization(), kl.Bidirectional(kl.GRU(5)), kl.Dropout(0.1), kl.Dense(5),
    ])  # fmt: skip


def nested() -> Any:
    """A backbone inside a model inside a model, as for transfer learning, and a small block inside that."""
    image = keras.Input((16, 16, 3))
    x = conv(image, 6)
    for _ in range(3):
        x = kl.Add()([x, keras.Sequential([kl.Conv2D(6, 3, padding="same"), kl.BatchNormalization(), kl.ReLU()])(x)])
    backbone = keras.Model(image, x)
    layers = [kl.Rescaling(2.0), backbone, kl.GlobalMaxPool2D(), kl.Dropout(0.2), kl.Dense(5)]
    return keras.Sequential([keras.Input((16, 16, 3)), *layers])


def shared() -> Any:
    """Layers called several times; regularisers; losses that layers add."""
    image = keras.Input((16, 16, 3))
    again = kl.Conv2D(6, 3, padding="same", activation="relu", kernel_regularizer="l2", activity_regularizer="l2")
    normalise, drop = kl.BatchNormalization(), kl.Dropout(0.2, seed=3)
    x = kl.Conv2D(6, 3, padding="same")(image)
    for _ in range(3):
        x = drop(normalise(again(x)))
    return keras.Model(image, kl.Dense(5)(kl.GlobalAveragePooling2D()(x)))


class Block(kl.Layer):
    """A layer made of layers, with a keyword of its own and a loss of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.convolve = kl.Conv2D(6, 3, padding="same")
        self.normalise = kl.BatchNormalization()
        self.drop = kl.Dropout(0.2)

    def call(self, x: Any, factor: float = 1.0, training: bool | None = None) -> Any:
        h = self.drop(keras.activations.gelu(self.normalise(self.convolve(x), training=training)))
        self.add_loss(1e-3 * keras.ops.mean(keras.ops.square(h)))
        return x + factor * h


class Subclassed(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.first = kl.Conv2D(6, 3, padding="same")
        self.blocks = [Block() for _ in range(3)]
        self.last = kl.Dense(5)

    def call(self, x: Any, training: bool | None = None) -> Any:
        x = self.first(x)
        for block in self.blocks:
            x = block(x, factor=0.5, training=training)
        return self.last(keras.ops.mean(x, axis=(1, 2)))


class Autoencoder(keras.Model):
    """A variational autoencoder with a train_step of its own."""

    def __init__(self) -> None:
        super().__init__()
        image = keras.Input((16, 16, 3))
        x = kl.Flatten()(conv(conv(image, 4), 4, strides=2))
        self.encoder = keras.Model(image, [kl.Dense(4)(x), kl.Dense(4)(x)])
        latent = keras.Input((4,))
        x = kl.Reshape((8, 8, 2))(kl.Dense(128, "relu")(latent))
        x = kl.UpSampling2D()(kl.BatchNormalization()(kl.Conv2D(8, 3, padding="same")(x)))
        self.decoder = keras.Model(latent, kl.Conv2D(3, 3, padding="same")(x))
        self.seeds = keras.random.SeedGenerator(5)

    def call(self, x: Any, training: bool | None = None) -> Any:
        mean, log_variance = self.encoder(x, training=training)
        noise = keras.random.normal(keras.ops.shape(mean), seed=self.seeds)
        return self.decoder(mean + keras.ops.exp(log_variance / 2) * noise, training=training), mean, log_variance

    def train_step(self, data: Any) -> Any:
        x = data[0]
        with tf.GradientTape() as tape:
            image, mean, log_variance = self(x, training=True)
            distance = keras.ops.mean(keras.ops.square(image - x))
            spread = -0.5 * keras.ops.mean(1 + log_variance - mean**2 - keras.ops.exp(log_variance))
            loss = distance + 1e-2 * spread
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"loss": loss}


MODELS: dict[str, tuple[Callable[[], Any], Any, Any]] = {
    "residual": (residual, IMAGES, LABELS),
    "unet": (unet, IMAGES, MAPS),
    "transformer": (transformer, TOKENS, LABELS),
    "lstm": (lstm, TOKENS, LABELS),
    "nested": (nested, IMAGES, LABELS),
    "shared": (shared, IMAGES, LABELS),
    "subclassed": (Subclassed, IMAGES, LABELS),
    "own_train_step": (Autoencoder, IMAGES, LABELS),
}


def make(name: str, optimizer: str = "adam", **options: Any) -> Any:
    keras.utils.set_random_seed(3)
    metrics = None if name == "own_train_step" else ["accuracy"]
    return compiled(MODELS[name][0](), keras.optimizers.get(optimizer), metrics=metrics, **options)


def random_model(seed: int) -> Any:
    """A graph of layers at random: chains, branches, skips, shared layers, nested models, added losses."""
    pick = random.Random(seed)
    keras.utils.set_random_seed(seed)
    image = keras.Input((6, 6, 3))
    shared = [kl.Conv2D(4, 3, padding="same", activation=pick.choice([None, "relu"])), kl.Dropout(0.2)]
    found = [kl.Conv2D(4, 1)(image)]
    for _ in range(pick.randint(3, 14)):
        x, other = pick.choice(found[-3:]), pick.choice(found)
        found.append(_random_layer(pick, shared)(x) if pick.random() < 0.7 else _joined(pick, x, other))
    x = kl.GlobalAveragePooling2D()(kl.Concatenate()(found[-2:]))
    return keras.Model(image, kl.Dense(5)(x))


def _random_layer(pick: random.Random, shared: list[Any]) -> Any:
    kind = pick.randrange(12)
    if kind < 3:
        return kl.Conv2D(4, pick.choice([1, 3]), padding="same", activation=pick.choice([None, "relu", "gelu", "tanh"]))
    if kind < 5:
        return kl.BatchNormalization(momentum=0.9)
    if kind == 5:
        return pick.choice([kl.ReLU(), kl.Activation("silu"), kl.LeakyReLU(), kl.Softmax()])
    if kind == 6:
        return pick.choice([kl.Dropout(0.3), kl.SpatialDropout2D(0.3), kl.GaussianNoise(0.1), kl.GaussianDropout(0.2)])
    if kind == 7:
        return pick.choice([kl.LayerNormalization(), kl.GroupNormalization(2)])
    if kind == 8:
        return pick.choice(shared)
    if kind == 9:
        inner = [kl.Conv2D(4, 3, padding="same"), kl.BatchNormalization(), kl.Dropout(0.1), kl.ReLU()]
        return keras.Sequential(inner[: pick.randint(1, 4)])
    if kind == 10:
        return kl.Dense(4, activity_regularizer="l2", kernel_regularizer="l2")
    return pick.choice([kl.DepthwiseConv2D(3, padding="same"), kl.SeparableConv2D(4, 3, padding="same"),
                        kl.MaxPool2D(3, 1, padding="same"), kl.AveragePooling2D(3, 1, padding="same")])  # fmt: skip


def _joined(pick: random.Random, one: Any, other: Any) -> Any:
    kind = pick.randrange(4)
    if kind == 0:
        return kl.Add()([one, other])
    if kind == 1:
        return kl.Multiply()([one, other])
    if kind == 2:
        return kl.Conv2D(4, 1)(kl.Concatenate()([one, other]))
    return keras.ops.maximum(one, other) if pick.random() < 0.5 else one - 0.5 * other
