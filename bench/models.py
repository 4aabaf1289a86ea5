"""Small models of the usual kinds, with a batch each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import layers as kl


class Case(NamedTuple):
    """A model to build (compiled with the given arguments) and its data."""

    build: Callable[..., Any]
    x: Any
    y: Any
    batch: int

    def steady_dataset(self) -> Any:
        """Its batches, without autotuning: whose thread ends at once, or sleeps on for as long as the epoch took.

        It misses its wake-up in every fourth epoch or so, guarded or not: a lottery, and not what is measured.
        """
        import tensorflow as tf

        data = tf.data.Dataset.from_tensor_slices((self.x, self.y)).batch(self.batch).prefetch(2)
        options = tf.data.Options()
        options.autotune.enabled = False
        return data.with_options(options)


def _compiled(model: Any, optimizer: str = "adam", **options: Any) -> Any:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"], **options)
    return model


def mlp(**options: Any) -> Any:
    keras.utils.set_random_seed(0)
    layers = [keras.Input((64,)), kl.Dense(128, "relu"), kl.Dense(128, "relu"), kl.Dense(10)]
    return _compiled(keras.Sequential(layers), **options)


def cnn(dropout: float = 0.1, **options: Any) -> Any:
    keras.utils.set_random_seed(0)
    layers = [keras.Input((32, 32, 3))]
    for filters in (16, 32):
        layers += [kl.Conv2D(filters, 3, padding="same", activation="relu"), kl.LayerNormalization(), kl.MaxPooling2D()]
    return _compiled(keras.Sequential([*layers, kl.Dropout(dropout), kl.Flatten(), kl.Dense(10)]), **options)


def transformer(dropout: float = 0.1, **options: Any) -> Any:
    keras.utils.set_random_seed(0)
    tokens = keras.Input((64,), dtype="int32")
    x = kl.Dropout(dropout)(kl.Embedding(2000, 64)(tokens))
    for _ in range(2):
        x = kl.LayerNormalization()(x + kl.MultiHeadAttention(4, 16)(x, x))
        x = kl.LayerNormalization()(x + kl.Dense(64)(kl.Dense(128, "gelu")(x)))
    return _compiled(keras.Model(tokens, kl.Dense(10)(kl.GlobalAveragePooling1D()(x))), **options)


def vgg_like(**options: Any) -> Any:
    keras.utils.set_random_seed(0)
    layers = [keras.Input((64, 64, 3))]
    for filters in (32, 64):
        layers += [kl.Conv2D(filters, 3, padding="same", activation="relu"), kl.MaxPooling2D()]
    layers += [kl.Flatten(), kl.Dense(2048, "relu"), kl.Dense(2048, "relu"), kl.Dense(10)]
    return _compiled(keras.Sequential(layers), **options)


def dense(**options: Any) -> Any:
    keras.utils.set_random_seed(0)
    layers = [keras.Input((2048,)), *[kl.Dense(2048, "relu") for _ in range(4)], kl.Dense(10)]
    return _compiled(keras.Sequential(layers), **options)


def embedding(**options: Any) -> Any:
    keras.utils.set_random_seed(0)
    layers = [keras.Input((64,)), kl.Embedding(100_000, 64), kl.GlobalAveragePooling1D(), kl.Dense(10)]
    return _compiled(keras.Sequential(layers), **options)


def _case(build: Callable[..., Any], shape: tuple[int, ...], batch: int, steps: int, vocabulary: int = 0) -> Case:
    generator = np.random.default_rng(0)
    samples = batch * steps
    if vocabulary:
        x: Any = generator.integers(0, vocabulary, (samples, *shape)).astype(np.int32)
    else:
        x = generator.random((samples, *shape), np.float32)
    return Case(build, x, generator.integers(0, 10, samples), batch)


def case(name: str) -> Case:
    """The case called `name`."""
    return {
        "mlp": lambda: _case(mlp, (64,), 32, 200),
        "cnn": lambda: _case(cnn, (32, 32, 3), 32, 10),
        "cnn_large": lambda: _case(cnn, (32, 32, 3), 512, 8),
        "transformer": lambda: _case(transformer, (64,), 32, 8, 2000),
        "vgg_like": lambda: _case(vgg_like, (64, 64, 3), 32, 2),
        "dense": lambda: _case(dense, (2048,), 32, 2),
        "embedding": lambda: _case(embedding, (64,), 32, 2, 100_000),
    }[name]()


def unet_without_head(side: int) -> tuple[Any, Any]:
    """Three levels down, three up, a skip at each, batch normalisation everywhere: the image, and what comes out."""

    def block(x: Any, filters: int) -> Any:
        for _ in range(2):
            x = kl.ReLU()(kl.BatchNormalization()(kl.Conv2D(filters, 3, padding="same", use_bias=False)(x)))
        return x

    image = keras.Input((side, side, 3))
    x, skips = image, []
    for filters in (16, 32, 64):
        x = block(x, filters)
        skips.append(x)
        x = kl.MaxPooling2D()(x)
    x = block(x, 128)
    for filters in (64, 32, 16):
        x = block(kl.Concatenate()([kl.Conv2DTranspose(filters, 2, strides=2)(x), skips.pop()]), filters)
    return image, x


def unet(side: int, **options: Any) -> Any:
    keras.utils.set_random_seed(0)
    image, x = unet_without_head(side)
    return _compiled(keras.Model(image, kl.Conv2D(10, 1)(x)), "sgd", **options)


def deep_transformer(length: int, **options: Any) -> Any:
    """Six blocks, 128 wide."""
    keras.utils.set_random_seed(0)
    tokens = keras.Input((length,), dtype="int32")
    x = kl.Embedding(1000, 128)(tokens)
    for _ in range(6):
        h = kl.LayerNormalization()(x)
        x = x + kl.MultiHeadAttention(4, 32, dropout=0.1)(h, h)
        x = x + kl.Dropout(0.1)(kl.Dense(128)(kl.Dense(512, "gelu")(kl.LayerNormalization()(x))))
    return _compiled(keras.Model(tokens, kl.Dense(10)(kl.GlobalAveragePooling1D()(x))), "sgd", **options)


def ready_made(name: str, side: int, **options: Any) -> Any:
    """A model of keras.applications."""
    keras.utils.set_random_seed(0)
    arguments = {"weights": None, "input_shape": (side, side, 3), "classes": 10, "classifier_activation": None}
    return _compiled(getattr(keras.applications, name)(**arguments), "sgd", **options)


def big_case(name: str, side: int, batch: int) -> Case:
    """One batch for a model whose activations are what takes memory."""
    generator = np.random.default_rng(0)
    if name == "transformer":
        tokens = generator.integers(0, 1000, (batch, side)).astype(np.int32)
        return Case(partial(deep_transformer, side), tokens, generator.integers(0, 10, batch), batch)
    images = generator.random((batch, side, side, 3), np.float32)
    if name == "unet":
        return Case(partial(unet, side), images, generator.integers(0, 10, (batch, side, side)), batch)
    return Case(partial(ready_made, name, side), images, generator.integers(0, 10, batch), batch)
