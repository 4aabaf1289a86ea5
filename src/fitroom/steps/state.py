"""What a function writes, remembered and put back bit for bit.

Reading a variable shares its buffer; an update in place then copies first, because the buffer is no longer its own
alone. So remembering costs no memory until something changes, and only as much as changes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from fitroom.steps import graph_seams
from fitroom.steps.compiled import Compiled

_FEW = 24  # variables: a read costs 7 µs, a function that reads them all 115 µs and 3.5 µs for each


class State:
    """The values of some variables at a moment."""

    def __init__(self, variables: Sequence[Any]) -> None:
        self.variables = list(variables)
        self._function: Any = None
        self._read = Compiled(lambda: [_read(variable) for variable in self.variables])

    @functools.cached_property
    def bytes(self) -> int:
        """What they take together."""
        return sum(bytes_of(variable) for variable in self.variables)

    def read(self) -> list[Any]:
        """The values now."""
        if len(self.variables) <= _FEW:
            return [_read(variable) for variable in self.variables]
        if self._function is None:
            self._function = self._read.concrete(())
        return list(graph_seams.call_flat(self._function, []))

    def write(self, values: list[Any]) -> None:
        """Put `values` back."""
        for variable, value in zip(self.variables, values, strict=True):
            tf.raw_ops.DisableCopyOnRead(resource=variable.handle)  # or it would be copied into new memory
            tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)

    def refill(self, arrays: list[Any]) -> None:
        """Put back values that were kept on the host, in the room that the variables themselves take."""
        for variable, array in zip(self.variables, arrays, strict=True):
            # What there is now goes first: while memory is short, there is no room for both.
            tf.raw_ops.DisableCopyOnRead(resource=variable.handle)
            empty = tf.zeros([0], variable.dtype)
            tf.raw_ops.AssignVariableOp(resource=variable.handle, value=empty, validate_shape=False)
            with tf.device(variable.device):
                value = tf.constant(array)
            tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)


def bytes_of(variable: Any) -> int:
    """What a variable takes."""
    size: int = tf.as_dtype(variable.dtype).size
    return int(np.prod(variable.shape)) * size


def _read(variable: Any) -> Any:
    return tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)


def native(variables: Sequence[Any]) -> list[Any]:
    """The TensorFlow variables behind Keras variables, one per replica."""
    found = []
    for variable in variables:
        value = variable if isinstance(variable, (tf.Variable, tf.distribute.DistributedValues)) else variable.value
        found += list(value.values) if isinstance(value, tf.distribute.DistributedValues) else [value]
    return found


class Current:
    """The State of variables that may be others at the next call; made anew only then: reading one is traced."""

    def __init__(self) -> None:
        self._state = State([])

    def of(self, variables: Sequence[Any]) -> State:
        """These variables' State."""
        found = {id(one): one for one in native(variables)}
        if {id(one) for one in self._state.variables} != found.keys():
            self._state = State(list(found.values()))
        return self._state
