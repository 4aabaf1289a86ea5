"""Batches of any size, of one sample over and over: the one that was given, or one made up from what a model tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from fitroom.errors import UsageError

SCOPE = "fitroom_data"  # what the operations that make batches are called

_GIVE_X = "fitroom.estimate(model, batch_size, x=some_samples, y=their_targets)"


def of_inputs(model: Any) -> Any:
    """A sample of what a model says that it takes.

    Raises:
        UsageError: if it does not say, or leaves an axis open.
    """
    if not getattr(model, "inputs", None):
        raise UsageError(
            "The model does not tell its inputs",
            received=f"{type(model).__name__}, a subclassed model",
            expected="a few samples",
            hint=_GIVE_X,
        )
    return tuples(
        keras.tree.map_structure(_sample, model.inputs[0] if isinstance(model, keras.Sequential) else model.input)
    )


def tuples(value: Any) -> Any:
    """The same with tuples for lists: a dataset would make one tensor of a list."""
    if isinstance(value, dict):
        return {name: tuples(one) for name, one in value.items()}
    return tuple(tuples(one) for one in value) if isinstance(value, list | tuple) else value


def _sample(tensor: Any) -> Any:
    shape = tuple(tensor.shape)[1:]
    if None in shape:
        raise UsageError(
            "The model leaves an axis of its input open",
            received=f"{tensor.name}: {tuple(tensor.shape)}",
            expected="samples as long as the longest that it will be trained on",
            hint=_GIVE_X,
        )
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    return _made_up((1, *shape), dtype)


def _made_up(shape: tuple[int, ...], dtype: str) -> Any:
    if dtype.startswith("float") or dtype == "bfloat16":
        return np.random.default_rng(0).random(shape, np.float32)
    return np.zeros(shape, "S1" if dtype == "string" else dtype)


def of_targets(model: Any, outputs: Any) -> Any:
    """A sample of targets that the model's losses take, by what the model gives; None where it has no loss."""
    losses = model.loss
    if losses is None:
        return None
    if isinstance(outputs, dict) and isinstance(losses, dict):
        return {name: _target(losses[name], outputs[name]) for name in outputs if losses.get(name) is not None}
    flat = keras.tree.flatten(outputs)
    if isinstance(losses, dict):
        losses = [losses.get(name) for name in getattr(model, "output_names", [])]
    one_each = losses if isinstance(losses, list | tuple) else [losses] * len(flat)
    targets = [_target(loss, output) for loss, output in zip(one_each, flat, strict=True)]
    return tuples(keras.tree.pack_sequence_as(outputs, targets)) if keras.tree.is_nested(outputs) else targets[0]


def _target(loss: Any, output: Any) -> Any:
    if loss is None:
        return np.zeros((1,), np.float32)
    name = loss if isinstance(loss, str) else getattr(loss, "name", None) or getattr(loss, "__name__", "")
    fn = getattr(loss, "fn", None)
    named = f"{name} {getattr(fn, '__name__', '')} {type(loss).__name__}".lower()
    shape = (1, *tuple(output.shape)[1:])
    if "sparse" in named:
        return np.zeros(shape[:-1], np.int64)
    return np.random.default_rng(1).random(shape, np.float32)


def batch(sample: Any, size: int) -> Any:
    """A batch of `size` samples."""
    return tf.nest.map_structure(lambda leaf: np.resize(leaf, (size, *leaf.shape[1:])), sample)


def any_size(sample: Any) -> Any:
    """What batches of these samples are like, whatever their size."""
    return tf.nest.map_structure(lambda leaf: tf.TensorSpec((None, *leaf.shape[1:]), leaf.dtype), sample)


def symbolic(sample: Any) -> Any:
    """The same as Keras' symbols."""
    return tf.nest.map_structure(lambda leaf: keras.KerasTensor((None, *leaf.shape[1:]), str(leaf.dtype)), sample)


def dataset(sample: Any, sizes: Callable[[], Iterator[int]]) -> Any:
    """Batches of these sizes, each made when it is asked for, in the device's own memory."""

    def make(size: Any) -> Any:
        with tf.name_scope(SCOPE):
            return tf.nest.map_structure(lambda leaf: _repeated(leaf, size), sample)

    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False  # or batches would be made ahead of their steps
    numbers = tf.data.Dataset.from_generator(sizes, output_signature=tf.TensorSpec((), tf.int32))
    return numbers.map(make).with_options(options)


def _repeated(leaf: Any, size: Any) -> Any:
    whole = tf.gather(leaf, tf.zeros([size], tf.int32))
    whole.set_shape((None, *leaf.shape[1:]))
    return whole
