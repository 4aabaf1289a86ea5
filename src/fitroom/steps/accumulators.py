"""Where slices' gradients add up."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from fitroom.steps.state import State, native


def kind_of(gradient: Any) -> str:
    """dense, sparse or none."""
    if gradient is None:
        return "none"
    return "sparse" if isinstance(gradient, tf.IndexedSlices) else "dense"


class Accumulators:
    """Room for the sum of each variable's dense gradient. Sparse ones are joined when all of them are there.

    Args:
        variables: what the gradients are of.
        kinds: each gradient's kind.
    """

    def __init__(self, variables: Sequence[Any], kinds: Sequence[str]) -> None:
        self.kinds = list(kinds)
        self._rooms = [_room(one) if kind == "dense" else None for one, kind in zip(variables, kinds, strict=True)]
        self._state = State(native([room for room in self._rooms if room is not None]))

    @property
    def variables(self) -> list[Any]:
        """The TensorFlow variables that they are in."""
        return self._state.variables

    def clear(self) -> None:
        """Empty them."""
        for variable in self.variables:
            zeros = tf.zeros(variable.shape, variable.dtype)
            tf.raw_ops.AssignVariableOp(resource=variable.handle, value=zeros)

    def add(self, gradients: Sequence[Any], share: Any = None) -> list[Any]:
        """Add a slice's gradients, each times `share`; returns the sparse ones, weighed."""
        sparse = []
        for gradient, room in zip(gradients, self._rooms, strict=True):
            if room is not None:
                room.assign_add(_times(tf.convert_to_tensor(gradient), share))
            elif gradient is not None:
                values = _times(gradient.values, share)
                sparse.append(tf.IndexedSlices(values, gradient.indices, gradient.dense_shape))
        return sparse

    def total(self, sparse: list[list[Any]]) -> list[Any]:
        """The whole batch's gradients, with every slice's sparse ones."""
        sources: dict[str, Iterator[Any]] = {
            "dense": iter(self._state.read()),
            "sparse": iter(join(sparse)),
            "none": itertools.repeat(None),
        }
        return [next(sources[kind]) for kind in self.kinds]


def join(slices: list[list[Any]]) -> list[Any]:
    """Each variable's sparse gradient over all slices, duplicates kept: as the whole batch would have given it."""
    return [
        tf.IndexedSlices(
            tf.concat([part.values for part in parts], 0),
            tf.concat([part.indices for part in parts], 0),
            parts[0].dense_shape,
        )
        for parts in zip(*slices, strict=True)
    ]


def _room(variable: Any) -> Any:
    """Room for one variable's sum; one per replica, inside a strategy's scope."""
    return tf.Variable(
        tf.zeros(variable.shape, variable.dtype),
        trainable=False,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.SUM,
        name="fitroom_accumulator",
    )


def _times(values: Any, share: Any) -> Any:
    return values if share is None else values * tf.cast(share, values.dtype)
