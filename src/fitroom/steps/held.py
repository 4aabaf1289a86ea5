"""What a step tells besides its update: scalars, values per sample, metrics fed with scalars.

A slice's mean loss is not the batch's. So scalars that go into a metric are held back, combined over the slices, and
fed once; scalars that are returned are combined; values per sample are put together; and where a result is known to
be a metric's, the metric is asked again at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import tensorflow as tf

from fitroom.steps import keras_seams

Kind = Literal["mean", "sum", "other"]


class Held:
    """Scalars that metrics were fed with while a slice was traced, in order."""

    def __init__(self) -> None:
        self.metrics: list[Any] = []
        self.values: list[Any] = []

    @contextmanager
    def active(self) -> Iterator[Held]:
        """Hold back."""
        with keras_seams.every_mean(self._hold):
            yield self

    def _hold(self, metric: Any, value: Any, weight: Any) -> bool:
        """True where it was held back. With a weight of its own a value adds up rightly by itself."""
        if weight is not None or tf.convert_to_tensor(value).shape.rank != 0:
            return False
        self.metrics.append(metric)
        self.values.append(tf.cast(value, tf.float32))
        return True


def combine(kind: Kind, values: list[Any], shares: list[float]) -> Any:
    """The whole batch's scalar, from each slice's; a running value is the last one."""
    if kind == "other":
        return values[-1]
    total = sum(
        tf.cast(value, tf.float64) * (share if kind == "mean" else 1.0)
        for value, share in zip(values, shares, strict=True)
    )
    return tf.cast(total, values[0].dtype)


def assemble(kinds: list[Kind], slices: list[list[Any]], sizes: list[int]) -> list[Any]:
    """The whole batch's results, leaf by leaf."""
    shares = [size / sum(sizes) for size in sizes]
    results = []
    scalars = iter(kinds)
    for leaves in zip(*slices, strict=True):
        is_scalar = leaves[0].shape.rank == 0
        results.append(combine(next(scalars), list(leaves), shares) if is_scalar else tf.concat(leaves, 0))
    return results


def per_sample(leaves: list[Any], size: int) -> bool:
    """Whether every result is a scalar or has one entry per sample."""
    return all(leaf.shape.rank == 0 or leaf.shape[0] == size for leaf in leaves)
