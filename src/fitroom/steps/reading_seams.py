"""Many variables read in one operation, which TensorFlow has but does not export. Tried on TensorFlow 2.21.0.

For 60 variables it takes 50 µs, where a function that reads them takes 190 and single reads take 290. On several
replicas, where a function runs on all devices, that is a tenth of a small step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context, execute
from tensorflow.python.framework import op_def_registry

_TOGETHER = "_ReadVariablesOp"
_IS_KNOWN = op_def_registry.get(_TOGETHER) is not None


class Reader:
    """Reads some variables. What it gives shares their buffers, as `ReadVariableOp` does, until they change."""

    def __init__(self, variables: Sequence[Any]) -> None:
        self._variables = list(variables)
        by_device: dict[str, list[int]] = defaultdict(list)
        for place, variable in enumerate(self._variables):
            by_device[variable.device].append(place)
        self._groups = [_Group(self._variables, places) for places in by_device.values()]

    def __call__(self) -> list[Any]:
        """The values now, in the variables' order."""
        if not _IS_KNOWN or not tf.executing_eagerly():
            return [tf.raw_ops.ReadVariableOp(resource=one.handle, dtype=one.dtype) for one in self._variables]
        if len(self._groups) == 1:
            return self._groups[0].read()
        found: list[Any] = [None] * len(self._variables)
        for group in self._groups:
            for place, value in zip(group.places, group.read(), strict=True):
                found[place] = value
        return found


class _Group:
    """The variables of one device, whose operation looks at no other."""

    def __init__(self, variables: Sequence[Any], places: Sequence[int]) -> None:
        self.places = places
        self._handles = [variables[place].handle for place in places]
        types = [tf.as_dtype(variables[place].dtype).as_datatype_enum for place in places]
        self._attributes = "N", len(types), "dtypes", types

    def read(self) -> list[Any]:
        here = context.context()
        return list(execute.execute(_TOGETHER.encode(), len(self.places), self._handles, self._attributes, here))
