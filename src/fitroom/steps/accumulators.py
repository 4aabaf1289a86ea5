"""Where slices' gradients add up."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from fitroom.steps import graph_seams, replicas
from fitroom.steps.state import State, native


def kind_of(gradient: Any) -> str:
    """dense, sparse or none."""
    if gradient is None:
        return "none"
    return "sparse" if isinstance(gradient, tf.IndexedSlices) else "dense"


class Accumulators:
    """Room for the sum of each variable's dense gradient. Sparse ones are joined when all of them are there.

    Every replica has rooms of its own, where its weights are: what it adds up there is its own gradient, which the
    optimizer then adds to the others'.

    Args:
        variables: what the gradients are of.
        kinds: each gradient's kind.
    """

    def __init__(self, variables: Sequence[Any], kinds: Sequence[str]) -> None:
        self.kinds = list(kinds)
        self._rooms = [  # by variable and replica
            [_room(own) for own in native([one])] if kind == "dense" else None
            for one, kind in zip(variables, kinds, strict=True)
        ]
        self._state = State([room for rooms in self._rooms for room in rooms or ()])

    @property
    def variables(self) -> list[Any]:
        """The TensorFlow variables that they are in."""
        return self._state.variables

    def clear(self) -> None:
        """Have them be zero."""
        self.release()  # there may be no room for what they hold and for zeros at once
        for variable in self.variables:
            with tf.device(variable.device):
                zeros = tf.zeros(variable.shape, variable.dtype)
            tf.raw_ops.AssignVariableOp(resource=variable.handle, value=zeros)

    def release(self) -> None:
        """Give back the memory that they take, until they are cleared."""
        for variable in self.variables:
            with tf.device(variable.device):
                nothing = tf.zeros([0], variable.dtype)
            tf.raw_ops.AssignVariableOp(resource=variable.handle, value=nothing, validate_shape=False)

    def add(self, gradients: Sequence[Any], share: Any = None, replica: int = 0) -> list[Any]:
        """Add a slice's gradients on a replica, each times `share`; returns the sparse ones, weighed."""
        sparse = []
        for gradient, rooms in zip(gradients, self._rooms, strict=True):
            if rooms is not None:
                rooms[replica].assign_add(_times(tf.convert_to_tensor(gradient), share), read_value=False)
            elif gradient is not None:
                values = _times(gradient.values, share)
                sparse.append(tf.IndexedSlices(values, gradient.indices, gradient.dense_shape))
        return sparse

    def total(self, sparse: list[list[Any]]) -> list[Any]:
        """The whole batch's gradients, with every slice's sparse ones; each replica's, where there are several.

        They are taken out: whoever has used one up can let it go.
        """
        values = iter(self._state.read())
        self.release()
        sources: dict[str, Iterator[Any]] = {
            "dense": (replicas.together([next(values) for _ in rooms]) for rooms in self._rooms if rooms is not None),
            "sparse": iter(replicas.each(lambda *slices: join(slices), *sparse)),
            "none": itertools.repeat(None),
        }
        return [next(sources[kind]) for kind in self.kinds]


def join(slices: Sequence[list[Any]]) -> list[Any]:
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
    """Room for one variable's sum, where the variable is."""
    with tf.device(variable.device):
        zeros = tf.zeros(variable.shape, variable.dtype)
    return graph_seams.plain_variable(zeros, variable.device, "fitroom_accumulator")


def _times(values: Any, share: Any) -> Any:
    return values if share is None else values * tf.cast(share, values.dtype)
