"""Arrays that Keras would cast as a whole, cast batch by batch. Tried on Keras 3.15.1.

Keras makes a `float32` copy of every array of another float type, and a tensor of that. Its own pipeline then takes
batches by their numbers. Here such an array stands aside: its samples' numbers go through the pipeline in its place,
shuffled as it would have been, and each batch is taken from it and cast at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter


def bytes_of_copies(*data: Any) -> int:
    """What Keras' copies of these data take, of arrays that it would cast."""
    copies = [leaf.size * np.dtype(keras.config.floatx()).itemsize for leaf in _leaves(data) if _is_cast(leaf)]
    return 2 * int(sum(copies))  # an array, and a tensor


@contextmanager
def cast_by_batch() -> Iterator[None]:
    """While it lasts, arrays that Keras would cast are cast batch by batch."""
    plain = ArrayDataAdapter.get_tf_dataset

    def get_tf_dataset(self: Any) -> Any:
        inputs = self._inputs
        arrays = [leaf if _is_cast(leaf) else None for leaf in tf.nest.flatten(inputs)]  # in tf.data's order
        if not any(array is not None for array in arrays):
            return plain(self)
        self._inputs = keras.tree.map_structure(lambda leaf: np.arange(len(leaf)) if _is_cast(leaf) else leaf, inputs)
        try:
            dataset = plain(self)
        finally:
            self._inputs = inputs
        return _taking(dataset, arrays)

    ArrayDataAdapter.get_tf_dataset = get_tf_dataset
    try:
        yield
    finally:
        ArrayDataAdapter.get_tf_dataset = plain


def _taking(dataset: Any, arrays: list[Any]) -> Any:
    """The dataset with batches of the arrays in the place of their samples' numbers."""
    is_single = not isinstance(dataset.element_spec, tuple)

    def take(*element: Any) -> Any:
        flat = [
            leaf if array is None else _batch(array, leaf)
            for array, leaf in zip(arrays, tf.nest.flatten(element), strict=True)
        ]
        batch = tf.nest.pack_sequence_as(element, flat)
        return batch[0] if is_single else batch

    return dataset.map(take, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).prefetch(tf.data.AUTOTUNE)


def _batch(array: Any, numbers: Any) -> Any:
    kind = keras.config.floatx()
    batch = tf.numpy_function(lambda which: array[which].astype(kind), [numbers], kind, stateful=False)
    batch.set_shape([*numbers.shape, *array.shape[1:]])
    return batch


def _leaves(data: Any) -> list[Any]:
    return [leaf for leaf in keras.tree.flatten(data) if leaf is not None]


def _is_cast(leaf: Any) -> bool:
    is_float = isinstance(leaf, np.ndarray) and leaf.ndim > 0 and np.issubdtype(leaf.dtype, np.floating)
    return bool(is_float and leaf.dtype != np.dtype(keras.config.floatx()))
