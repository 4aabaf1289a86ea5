"""An iterator's batches on their way to a step."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

ORIGIN = "_fitroom_origin"  # on an iterator that only passes on another's batches: that other one
TAKES_ANY = "_fitroom_takes_any"  # on a step's function that goes through any iterator
_ENOUGH = 1 << 20  # bytes of each part of a batch: they tell it from another


class Passing:
    """A few batches that pass through: those taken out before first, then the iterator's own.

    Args:
        iterator: where they come from.
        first: batches that were taken out of it.
        count: how many may pass in all: TensorFlow likes to read ahead, and what it reads would be lost.

    Attributes:
        element_spec: what they are like; None where the iterator does not tell.
        print: a checksum of what has passed.
    """

    def __init__(self, iterator: Any, *first: Any, count: int) -> None:
        self._iterator = iterator
        self._first = list(first)
        self._left = count
        self.element_spec = getattr(iterator, "element_spec", None)
        self.print = 0
        setattr(self, ORIGIN, getattr(iterator, ORIGIN, iterator))

    def iterator_for(self, function: Any) -> Any:
        """An iterator over them that a step's function takes: ours takes any."""
        return self if hasattr(function, TAKES_ANY) else self.iterator

    @property
    def iterator(self) -> Any:
        """An iterator over them of the kind that they came from: Keras compiles a step for TensorFlow's own only.

        Each is a dataset of its own, of which TensorFlow never forgets the functions: some 75 KiB.
        """
        specs = tf.nest.flatten(self.element_spec) if self.element_spec is not None else []
        if specs and all(isinstance(spec, (tf.TensorSpec, tf.SparseTensorSpec, tf.RaggedTensorSpec)) for spec in specs):
            found = iter(tf.data.Dataset.from_generator(lambda: self, output_signature=self.element_spec))
            setattr(found, ORIGIN, getattr(self, ORIGIN))
            return found
        return self

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if not self._left:
            raise StopIteration
        self._left -= 1
        batch = self._first.pop(0) if self._first else next(self._iterator)
        self.print = checksum(batch, self.print)
        return batch


def checksum(batch: Any, before: int = 0) -> int:
    """A number that tells a batch from others."""
    for leaf in tf.nest.flatten(batch, expand_composites=True):
        if isinstance(leaf, (tf.Tensor, np.ndarray)):
            content = np.ascontiguousarray(leaf).reshape(-1)
            whole = content if content.dtype != object else np.array([str(one) for one in content[:_ENOUGH]])
            before = zlib.crc32(whole.view(np.uint8)[:_ENOUGH].tobytes(), before)
    return before
