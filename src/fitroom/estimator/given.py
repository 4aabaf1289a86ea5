"""What the user gave as data, as one sample: its shapes and types are what counts.

As large as the largest sample there is, because memory has to last for that one, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from fitroom.errors import UsageError

_BATCHES = 64  # of a dataset that does not tell its shapes are looked at


def sample_of(x: Any, y: Any, rank: int | None = None) -> tuple[Any, Any, list[str]]:
    """One sample of the data and one of the targets, each None where it was not given, and what is to be said of them.

    Args:
        rank: how many axes the model's first input has.

    Raises:
        UsageError: if there is no batch axis, no sample, or it would be used up by looking.
    """
    notes: list[str] = []
    if isinstance(x, tf.data.Dataset | keras.utils.PyDataset):
        found, notes = _of_dataset(x) if isinstance(x, tf.data.Dataset) else (_of_batch(x[0]), [])
        inputs, targets, *_ = (*found, None) if isinstance(found, tuple) else (found, None)
        first = tf.nest.flatten(inputs)[0]
        if rank is not None and first.ndim == rank - 1:
            raise UsageError(
                "The dataset gives single samples, not batches",
                received=f"elements of shape {first.shape}",
                hint="dataset.batch(32)",
            )
        return inputs, targets if y is None else _arrays(y, "y"), notes
    if isinstance(x, tf.RaggedTensor):
        notes = [f"For samples of {tuple(int(size) for size in x.bounding_shape()[1:])}, the largest in the data."]
    return _arrays(x, "x"), _arrays(y, "y"), notes


def _arrays(values: Any, what: str) -> Any:
    if values is None:
        return None
    if isinstance(values, Iterator):
        raise UsageError(
            f"fitroom.estimate would use up {what} by looking at it",
            received=type(values).__name__,
            expected="an array, a tensor, a tf.data.Dataset or a PyDataset",
        )
    if isinstance(values, dict):
        return {name: _arrays(value, what) for name, value in values.items()}
    if isinstance(values, list | tuple) and all(hasattr(one, "shape") or isinstance(one, dict) for one in values):
        return tuple(_arrays(value, what) for value in values)  # a model's several inputs; a dataset knows no lists
    return _first(values, what)


def _first(leaf: Any, what: str) -> Any:
    """The first sample of an array or a tensor, in the type in which `fit` would take it."""
    if isinstance(leaf, tf.RaggedTensor):
        return _zeros(leaf.bounding_shape()[1:], leaf.dtype)
    try:
        first = np.asarray(leaf[:1])
    except (TypeError, ValueError, IndexError):
        first = np.zeros(0)
    if first.dtype == object and first.size and isinstance(first.flat[0], bytes | str):
        first = first.astype("S")
    if first.ndim == 0 or first.shape[0] == 0 or first.dtype == object:
        raise UsageError(
            f"fitroom.estimate cannot read {what}",
            received=f"{type(leaf).__name__} of shape {getattr(leaf, 'shape', None)}",
            expected="arrays or tensors with a batch axis and at least one sample; tf.RaggedTensor for several lengths",
        )
    return first.astype(keras.config.floatx()) if np.issubdtype(first.dtype, np.floating) else first


def _of_batch(element: Any) -> Any:
    return tuple(_arrays(one, "x") for one in element) if isinstance(element, tuple | list) else _arrays(element, "x")


def _of_dataset(dataset: Any) -> tuple[Any, list[str]]:
    """From what the dataset tells of its elements; only where it leaves axes open, some of it is read."""
    specs = dataset.element_spec
    if all(_is_fixed(spec) for spec in tf.nest.flatten(specs)):
        return tf.nest.map_structure(lambda spec: _zeros(spec.shape[1:], spec.dtype), specs), []
    longest: Any = None
    for element in dataset.take(_BATCHES):
        shapes = tf.nest.map_structure(_shape, element)
        longest = shapes if longest is None else tf.nest.map_structure(np.maximum, longest, shapes)
    if longest is None:
        raise UsageError("The dataset is empty", expected="at least one batch")
    found = tf.nest.map_structure(lambda spec, shape: _zeros(shape, spec.dtype), specs, longest)
    shapes = ", ".join(str(leaf.shape[1:]) for leaf in tf.nest.flatten(found))
    return found, [f"For samples of {shapes}, the largest in the first {_BATCHES} batches."]


def _is_fixed(spec: Any) -> bool:
    return isinstance(spec, tf.TensorSpec) and spec.shape.rank is not None and None not in spec.shape.as_list()[1:]


def _shape(leaf: Any) -> Any:
    shape = leaf.bounding_shape() if isinstance(leaf, tf.RaggedTensor) else leaf.shape
    return np.array([int(size) for size in shape[1:]], int)


def _zeros(shape: Any, dtype: Any) -> Any:
    return np.zeros((1, *(int(size) for size in shape)), "S1" if dtype == tf.string else dtype.as_numpy_dtype)
