"""A batch, cut along its first axis."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import tensorflow as tf

from fitroom.errors import UsageError


def batch_size(data: Any) -> int:
    """How many samples a batch has: the first axis that all of its tensors share.

    Raises:
        UsageError: if its tensors disagree, so that it cannot be cut.
    """
    sizes = {_rows(leaf) for leaf in _leaves(data)}
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
    """The samples from `start` to `stop` of every part."""

    def part(leaf: Any) -> Any:
        if isinstance(leaf, tf.SparseTensor):
            rest = leaf.dense_shape[1:]
            size = tf.concat([[stop - start], tf.cast(rest, tf.int64)], 0)
            return tf.sparse.slice(leaf, [start, *[0] * (leaf.shape.rank - 1)], size)
        return None if leaf is None else leaf[start:stop]

    return tf.nest.map_structure(part, data)


def spread(data: Any, count: int, shift: int = 0) -> Any:
    """`count` samples from all over the batch, moved by `shift`: neighbours are often alike."""
    samples = batch_size(data)
    places = sorted({(index * (samples - 1) // max(1, count - 1) + shift) % samples for index in range(count)})
    places += [one for one in range(samples) if one not in places][: count - len(places)]

    def part(leaf: Any) -> Any:
        if leaf is None:
            return None
        if isinstance(leaf, tf.SparseTensor):
            return tf.sparse.concat(0, [cut(leaf, place, place + 1) for place in places])
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
