"""A batch, cut along its first axis.

Of a batch on several replicas each share is cut, into as many slices. It counts as having the samples of its smallest
share, so that no slice is ever empty; the others' slices have as many, or the few more that their shares have.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import tensorflow as tf

from fitroom.errors import UsageError
from fitroom.steps import replicas


def batch_size(data: Any) -> int:
    """How many samples a batch has: the first axis that all of its tensors share; of several shares, the smallest.

    Raises:
        UsageError: if its tensors disagree, so that it cannot be cut.
    """
    return min(map(_size_of, replicas.shares(_leaves(data))))


def sizes(data: Any) -> Any:
    """How many samples a batch has, as a tensor; as one for each replica, where it comes in shares."""
    return replicas.each(lambda part: tf.constant(_size_of(_leaves(part)), tf.int32), data)


def _size_of(leaves: list[Any]) -> int:
    sizes = {_rows(leaf) for leaf in leaves}
    if len(sizes) != 1 or None in sizes:
        raise UsageError(
            "This batch cannot be cut into slices: its parts have different first axes",
            received=", ".join(sorted(map(str, sizes))) or "no tensors",
            expected="one batch axis, first in every input, target and weight",
        )
    size = sizes.pop()
    assert size is not None
    return size


def cut(data: Any, start: int, stop: int) -> Any:
    """The samples from `start` to `stop` of every part; of each replica's share, what corresponds to them."""
    if replicas.count(data) == 1:
        return _cut(data, start, stop)
    least = batch_size(data)

    def of_share(share: Any) -> Any:
        samples = _size_of(_leaves(share))
        return _cut(share, start * samples // least, stop * samples // least)

    return replicas.each(of_share, data)


def _cut(data: Any, start: int, stop: int) -> Any:
    def part(leaf: Any) -> Any:
        if isinstance(leaf, tf.SparseTensor):
            rest = leaf.dense_shape[1:]
            size = tf.concat([[stop - start], tf.cast(rest, tf.int64)], 0)
            return tf.sparse.slice(leaf, [start, *[0] * (leaf.shape.rank - 1)], size)
        return None if leaf is None else leaf[start:stop]

    return tf.nest.map_structure(part, data)


def spread(data: Any, count: int, shift: int = 0) -> Any:
    """`count` samples from all over the batch, or over each share, moved by `shift`: neighbours are often alike."""
    return replicas.each(lambda share: _spread(share, count, shift), data)


def _spread(data: Any, count: int, shift: int) -> Any:
    samples = batch_size(data)
    places = sorted({(index * (samples - 1) // max(1, count - 1) + shift) % samples for index in range(count)})
    places += [one for one in range(samples) if one not in places][: count - len(places)]

    def part(leaf: Any) -> Any:
        if leaf is None:
            return None
        if isinstance(leaf, tf.SparseTensor):
            return tf.sparse.concat(0, [_cut(leaf, place, place + 1) for place in places])
        return tf.gather(leaf, places)

    return tf.nest.map_structure(part, data)


def bounds(samples: int, size: int) -> list[tuple[int, int]]:
    """Slices of at most `size`, as equal as can be, largest first: at most two shapes, often one."""
    count = -(-samples // size)
    small, extra = divmod(samples, count)
    edges = [0]
    for index in range(count):
        edges.append(edges[-1] + small + (index < extra))
    return list(pairwise(edges))


def _leaves(data: Any) -> list[Any]:
    return [leaf for leaf in tf.nest.flatten(data) if leaf is not None]


def _rows(leaf: Any) -> int | None:
    if isinstance(leaf, tf.RaggedTensor):
        return int(leaf.nrows())
    shape = leaf.shape
    return None if shape.rank in (None, 0) else shape[0]
