"""The arguments of a call: those with the batch's axis, other tensors, and everything else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from fitroom.steps import replicas


class Arguments:
    """Arguments taken apart, so that the call can be made again with another batch.

    Attributes:
        samples: the first axis that most arrays have in common, those of one entry left out; 0 where there is none.
            On several replicas, that of the first one's shares.
        data: the arrays with that axis, and the other arrays.
        kind: the same for calls that differ in their arrays only.
    """

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        structure = tf.nest.map_structure(replicas.unwrapped, (args, kwargs))
        leaves = tf.nest.flatten(structure)
        axes = [_shape(leaf)[0] for leaf in leaves if _is_array(leaf) and len(_shape(leaf))]
        self.samples = int(Counter([size for size in axes if size != 1] or axes or [0]).most_common(1)[0][0])
        self._places = [self._place(leaf) for leaf in leaves]
        # The arrays themselves are not kept: the first batch would be, for good.
        self._structure = tf.nest.pack_sequence_as(structure, self._places)
        placed = list(zip(leaves, self._places, strict=True))
        self.data = tuple([leaf for leaf, place in placed if place is one] for one in (_BATCH, _TENSOR))
        shown = tuple((type(place), _hashable(place)) for place in self._places)
        self.kind = (len(args), tuple(sorted(kwargs)), shown)

    def _place(self, leaf: Any) -> Any:
        if not _is_array(leaf):
            return leaf
        shape = _shape(leaf)
        return _BATCH if len(shape) > 0 and shape[0] == self.samples else _TENSOR

    def function(self, python: Callable[..., Any]) -> Callable[[Any], Any]:
        """`python`, as a function of `data`."""
        structure, places = self._structure, self._places

        def call(data: Any) -> Any:
            sources = {_BATCH: iter(data[0]), _TENSOR: iter(data[1])}
            leaves = [next(sources[place]) if isinstance(place, _Placeholder) else place for place in places]
            args, kwargs = tf.nest.pack_sequence_as(structure, leaves)
            return python(*args, **kwargs)

        return call


class _Placeholder:
    """Stands for an array of a call."""


_BATCH, _TENSOR = _Placeholder(), _Placeholder()


def _is_array(leaf: Any) -> bool:
    return isinstance(_first(leaf), (tf.Tensor, np.ndarray, np.generic))


def _first(leaf: Any) -> Any:
    """An argument, or the first replica's share of it: variables are on every replica, too, and are no shares."""
    return leaf.values[0] if isinstance(leaf, tf.distribute.DistributedValues) and hasattr(leaf, "values") else leaf


def _shape(leaf: Any) -> Any:
    return _first(leaf).shape


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value
