"""Keras' training step as one function: gradients and update together, as plain Keras runs it.

Apart they take longer where XLA compiles (up to a tenth, a CNN on a CPU), and on several replicas, where a call starts
all of them and waits for all (a fifth, a small MLP on two). So where all that a step writes is little, it is kept until
the step is through, and the step runs as it is; it is put back where the step fails. Slices have them apart.
"""

from __future__ import annotations

from typing import Any

from fitroom.steps import graph_seams, keras_seams, random_seams
from fitroom.steps.compiled import Compiled
from fitroom.steps.state import State
from fitroom.steps.update import KEEP_ON_DEVICE


class FusedStep:
    """A compiled model's whole training step.

    Args:
        model: compiled, and one that `is_for` is for.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.hidden_random: set[str] = set()
        self._step = Compiled(self._fused_step, jit_compile=bool(model.jit_compile))
        self._state = State([])
        self._state_of = -1  # how often the functions that it was made of had changed
        self._before: list[Any] | None = None

    @staticmethod
    def is_for(model: Any) -> bool:
        """Whether a built model's step is XLA's or several replicas', and writes so little that it can be kept."""
        strategy = model.distribute_strategy
        replicas = strategy.num_replicas_in_sync
        if model.run_eagerly or not (model.jit_compile or replicas > 1):
            return False
        if not model.optimizer.built:  # as its first update would
            with strategy.scope():
                model.optimizer.build(model.trainable_variables)
        return bool(keras_seams.variable_bytes(model) * replicas <= KEEP_ON_DEVICE)

    def __call__(self, data: Any, like: Any) -> Any:
        """The logs; everything is as it was before if it fails and is rolled back."""
        self.trace(data, like)
        self._before = self._state.read()
        logs = self._step(data)
        self._before = None
        return logs

    def trace(self, data: Any, like: Any) -> None:
        """Trace it for what the data is `like`, if that has not been done."""
        self._step.concrete((data,), like=None if like is None else (like,))
        if self._state_of == self._step.changes:
            return
        written: dict[int, Any] = {}
        for function in self._step.functions.values():
            self.hidden_random |= random_seams.hidden_random_operations(function)
            written |= {id(one.handle): one for one in graph_seams.written_variables(function)}
        self._state, self._state_of = State(list(written.values())), self._step.changes

    def most_alive(self, data: Any, samples: int) -> int | None:
        """What a batch takes at most, where it has been traced."""
        return self._step.most_alive(data, samples)

    def written_variables(self) -> list[Any]:
        """What it writes, as far as it has been traced."""
        return self._state.variables

    def roll_back(self) -> None:
        """Have everything be as it was before the last attempt, if that failed."""
        if self._before is not None:
            self._state.write(self._before)
            self._before = None

    def _fused_step(self, data: Any) -> Any:
        logs = self.model.distribute_strategy.run(self.model.train_step, args=(data,))
        return keras_seams.reduce_logs(self.model, logs)
