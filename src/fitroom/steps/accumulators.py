"""Where slices' gradients add up."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def kind_of(gradient: Any) -> str:
    """dense, sparse or none."""
    if gradient is None:
        return "none"
    return "sparse" if isinstance(gradient, tf.IndexedSlices) else "dense"


def accumulator(variable: Any) -> Any:
    """Room for the sum of the slices' gradients of a variable; one per replica, inside a strategy's scope."""
    return tf.Variable(
        tf.zeros(variable.shape, variable.dtype),
        trainable=False,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.SUM,
        name="fitroom_accumulator",
    )


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
