"""The optimizer's own `apply`, once per batch, all or nothing."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from fitroom.steps import keras_seams
from fitroom.steps.compiled import Compiled
from fitroom.steps.state import State, native


class Update:
    """Applies gradients to the variables that they belong to. A failed call leaves everything as it was."""

    def __init__(self, model: Any, variables: list[Any]) -> None:
        self.optimizer = model.optimizer
        self.strategy = model.distribute_strategy
        self.variables = variables
        self._apply = Compiled(self._step, jit_compile=bool(model.jit_compile), eager=bool(model.run_eagerly))
        self._state: State | None = None

    def __call__(self, gradients: list[Any]) -> None:
        """Apply `gradients`, or raise and change nothing."""
        state = self._written(gradients)
        before = state.read()
        done = False
        try:
            self._apply(gradients)
            done = True
        finally:
            if not done:
                state.write(before)

    def _step(self, gradients: list[Any]) -> None:
        def on_replica(given: list[Any]) -> None:
            # A strategy's all-reduce asks each gradient for its device; an argument has none, its identity has.
            placed = [None if one is None else tf.identity(one) for one in given]
            self.optimizer.apply(placed, self.variables)

        self.strategy.run(on_replica, args=(gradients,))

    def _written(self, gradients: list[Any]) -> State:
        if self._state is None:
            if self._apply.eager:
                touched = native([*self.variables, *self.optimizer.variables])
            else:
                function = self._apply.concrete((gradients,))
                touched = keras_seams.written_variables(function)
            self._state = State(touched)
        return self._state
