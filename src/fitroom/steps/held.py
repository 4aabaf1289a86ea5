"""What a step tells besides its update: scalars, values per sample, metrics fed with scalars.

A slice's mean loss is not the batch's. So scalars that go into a metric are held back, combined over the slices, and
fed once; scalars that are returned are combined; values per sample are put together; and where a result is known to
be a metric's, the metric is asked again at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import keras
import tensorflow as tf

from fitroom.steps import keras_seams, replicas

Kind = Literal["mean", "sum", "other"]


class Held:
    """Scalars that metrics were fed with while a slice was traced, in order."""

    def __init__(self) -> None:
        self._fed: dict[int, list[tuple[Any, Any]]] = {}  # by replica

    @property
    def metrics(self) -> list[Any]:
        """The metrics, in order."""
        return [metric for metric, _ in self._fed.get(0, ())]

    @property
    def values(self) -> list[Any]:
        """What they were fed; of several replicas, each one's."""
        return list(replicas.together([[value for _, value in self._fed[one]] for one in sorted(self._fed)] or [[]]))

    @contextmanager
    def active(self) -> Iterator[Held]:
        """Hold back."""
        with keras_seams.every_mean(self._hold):
            yield self

    def _hold(self, metric: Any, value: Any, weight: Any) -> bool:
        """True where it was held back. With a weight of its own a value adds up rightly by itself."""
        if weight is not None or tf.convert_to_tensor(value).shape.rank != 0:
            return False
        self._fed.setdefault(replicas.here(), []).append((metric, tf.cast(value, tf.float32)))
        return True


def _combine(kind: Kind, values: list[Any], shares: list[float]) -> Any:
    """The whole batch's scalar, from each slice's; a running value is the last one."""
    if kind == "other":
        return values[-1]
    total = sum(
        tf.cast(value, tf.float64) * (share if kind == "mean" else 1.0)
        for value, share in zip(values, shares, strict=True)
    )
    return tf.cast(total, values[0].dtype)


def assemble(kinds: list[Kind], slices: list[list[Any]], sizes: list[Any]) -> list[Any]:
    """The whole batch's results, leaf by leaf, from slices of these sizes; each replica's, where there are several."""
    by_replica = replicas.parts(slices)
    samples = replicas.parts(sizes, len(by_replica)) if len(by_replica) > 1 else replicas.parts(sizes)[:1]
    found = []
    for own, counts in zip(by_replica, samples, strict=True):
        with replicas.device_of(own):
            found.append(_assembled(kinds, own, [int(one) for one in counts]))
    return list(replicas.together(found))


def _assembled(kinds: list[Kind], slices: Sequence[list[Any]], sizes: list[int]) -> list[Any]:
    shares = [size / sum(sizes) for size in sizes]
    results = []
    scalars = iter(kinds)
    for leaves in zip(*slices, strict=True):
        is_scalar = leaves[0].shape.rank == 0
        results.append(_combine(next(scalars), list(leaves), shares) if is_scalar else tf.concat(leaves, 0))
    return results


def per_sample(leaves: list[Any], size: int) -> bool:
    """Whether every result is a scalar or has one entry per sample."""
    return all(one.shape.rank == 0 or one.shape[0] == size for own in replicas.parts(leaves) for one in own)


def as_tensor(leaf: Any) -> Any:
    """A leaf of a step's result as a tensor; each replica's, of what there is on every replica."""
    return replicas.each(tf.convert_to_tensor, leaf)


def is_tensor(leaf: Any) -> bool:
    """Whether a leaf of a step's result is one to put together."""
    return isinstance(leaf, (tf.Tensor, tf.Variable, keras.Variable, tf.distribute.DistributedValues))
