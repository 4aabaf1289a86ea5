"""Where steps/ reaches into Keras' and TensorFlow's random numbers. Tried on Keras 3.15.1 with TensorFlow 2.21.0."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
from keras.src.backend.tensorflow import random as keras_random

from fitroom.steps import graph_seams
from fitroom.steps.replacing import replaced


@contextmanager
def fixed_randomness() -> Iterator[None]:
    """Have every sample draw the same numbers, dropout drop nothing, and a shuffle reverse, while tracing."""

    def rows(shape: Any, dtype: Any, low: float = -1.0, high: float = 1.0) -> Any:
        """The same row for every sample: values between low and high that depend on the place in the row only."""
        shape = tf.cast(tf.convert_to_tensor(shape), tf.int32)
        dtype = tf.as_dtype(dtype or "float32")
        if shape.shape[0] == 0:
            return tf.cast((low + high) / 2 + (high - low) * 0.1, dtype)
        count = tf.reduce_prod(shape[1:])
        row = tf.sin(tf.cast(tf.range(count), tf.float32) * 1.7 + 0.3)
        row = low + (high - low) * (row + 1) / 2
        return tf.broadcast_to(tf.reshape(tf.cast(row, dtype), tf.concat([[1], shape[1:]], 0)), shape)

    def normal(shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: Any = None, **_: Any) -> Any:
        values = rows(shape, dtype)
        return values * tf.cast(stddev, values.dtype) + tf.cast(mean, values.dtype)

    def uniform(shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = None, seed: Any = None, **_: Any) -> Any:
        return rows(shape, dtype, float(minval), 1.0 if maxval is None else float(maxval))

    def randint(shape: Any, minval: Any, maxval: Any, dtype: Any = "int32", seed: Any = None) -> Any:
        return rows(shape, dtype, float(minval), float(maxval))

    def dropout(inputs: Any, *_: Any, **__: Any) -> Any:
        return inputs

    def shuffle(x: Any, *_: Any, **__: Any) -> Any:
        return tf.reverse(x, [0])

    def of_generator(self: Any, *args: Any, **kwargs: Any) -> Any:
        return normal(*args, **kwargs)

    def uniform_of_generator(self: Any, *args: Any, **kwargs: Any) -> Any:
        return uniform(*args, **kwargs)

    with replaced([
        (keras_random, "normal", normal), (keras_random, "truncated_normal", normal),
        (keras_random, "uniform", uniform), (keras_random, "randint", randint), (keras_random, "dropout", dropout),
        (keras_random, "shuffle", shuffle),
        (tf.random, "normal", normal), (tf.random, "truncated_normal", normal), (tf.random, "uniform", uniform),
        (tf.random, "shuffle", shuffle), (tf.random, "stateless_normal", normal),
        (tf.random, "stateless_uniform", uniform), (tf.nn, "dropout", dropout),
        (tf.random.Generator, "normal", of_generator), (tf.random.Generator, "truncated_normal", of_generator),
        (tf.random.Generator, "uniform", uniform_of_generator),
    ]):  # fmt: skip
        yield


def is_seed(variable: Any) -> bool:
    """Whether a variable is the state of a random generator, Keras' or TensorFlow's."""
    return (
        variable.dtype == tf.uint32
        or "seed" in variable.name
        or (variable.dtype == tf.int64 and variable.shape.rank == 1)
    )


# Random operations that keep their state inside the kernel, where nobody can put it back.
HIDDEN_STATE = {"RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt", "Multinomial",
                "RandomShuffle", "RandomGammaV2", "RandomPoissonV2", "ParameterizedTruncatedNormal"}  # fmt: skip


def hidden_random_operations(function: Any) -> set[str]:
    """The kinds of random operations in a concrete function whose state cannot be put back."""
    graphs = graph_seams.inner_graphs(function.graph)
    return {op.type for graph in graphs for op in graph.get_operations() if op.type in HIDDEN_STATE}
