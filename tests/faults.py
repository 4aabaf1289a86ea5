"""Faults on demand: a real `ResourceExhaustedError` at a chosen place and step, without the allocator's long wait.

A `tf.numpy_function` that raises `MemoryError` surfaces as the runtime's own `ResourceExhaustedError`, from inside the
graph, in a fraction of a second, where a real allocation failure waits ten. It can strike in a layer's forward pass,
in its gradient, before one variable's update, and on one replica only.

    fault = Fault(at_calls={3})
    model = keras.Sequential([..., faults.layer(fault, where="gradient"), ...])

Python callbacks do not run under XLA on a CPU; there, faults strike between compiled functions instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf


@dataclass
class Fault:
    """Strikes on chosen calls, counted from 1 over all places that share it.

    Attributes:
        at_calls: the calls that fail; a function of the call's number will do as well.
        replica: strike on this replica only; None for all.
        calls, strikes: how often it was passed, and how often it struck.
    """

    at_calls: Iterable[int] | Callable[[int], bool] = ()
    replica: int | None = None
    calls: int = 0
    strikes: int = 0
    armed: bool = True
    _set: frozenset[int] = field(init=False, default=frozenset())
    _function: Any = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.at_calls):
            self._set = frozenset(self.at_calls)

    def visit(self) -> None:
        """Count this call, and raise if it is one that fails."""
        if not self.armed:
            return
        self.calls += 1
        if self.at_calls(self.calls) if callable(self.at_calls) else self.calls in self._set:
            self.strikes += 1
            raise MemoryError(f"injected fault on call {self.calls}")

    def place(self, tensor: Any) -> Any:
        """`tensor`, unless the fault strikes when it is computed."""

        if self.replica is not None:
            context = tf.distribute.get_replica_context()
            if context is None or int(tf.get_static_value(context.replica_id_in_sync_group)) != self.replica:
                return tensor
        # Eagerly, numpy_function would raise the bare MemoryError: inside a function it is the runtime that raises.
        if self._function is None:
            self._function = tf.function(self._check, autograph=False, reduce_retracing=True)
        result = self._function(tensor)
        result.set_shape(tensor.shape)
        return result

    def _check(self, tensor: Any) -> Any:
        def check(value: np.ndarray) -> np.ndarray:
            self.visit()
            return value

        return tf.numpy_function(check, [tensor], tensor.dtype)


Where = Literal["forward", "gradient"]


class FaultyLayer(keras.layers.Layer):
    """Passes its input through, or strikes, in the forward pass or in the gradient."""

    def __init__(self, fault: Fault, where: Where = "forward", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.fault = fault
        self.where = where

    def call(self, inputs: Any) -> Any:
        if self.where == "forward":
            # A pure pass-through for the gradient: numpy_function itself has none.
            return tf.grad_pass_through(self.fault.place)(inputs)

        @tf.custom_gradient
        def strike_on_the_way_back(x: Any) -> tuple[Any, Any]:
            return tf.identity(x), lambda upstream: self.fault.place(upstream)

        return strike_on_the_way_back(inputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape


# Layers that are not Keras' own are tried on a few samples before a batch is sliced; faults are not for that trial.
FaultyLayer.__module__ = "keras.faults"


def layer(fault: Fault, where: Where = "forward") -> FaultyLayer:
    """A layer in which `fault` strikes."""
    return FaultyLayer(fault, where)


def faulty_update(optimizer: keras.optimizers.Optimizer, variable_index: int, fault: Fault) -> None:
    """Have `fault` strike just before `optimizer` updates one of its variables, after others were updated."""
    plain = optimizer.update_step

    def update_step(gradient: Any, variable: Any, learning_rate: Any) -> Any:
        if optimizer._get_variable_index(variable) == variable_index:
            if isinstance(gradient, tf.IndexedSlices):
                gradient = tf.IndexedSlices(fault.place(gradient.values), gradient.indices, gradient.dense_shape)
            else:
                gradient = fault.place(gradient)
        return plain(gradient, variable, learning_rate)

    optimizer.update_step = update_step
