"""A model's prediction: slices one after the other, each one's outputs brought home before the next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from fitroom.steps import graph_seams, keras_seams, mixing, replicas, slicing
from fitroom.steps.compiled import Compiled, any_batch
from fitroom.steps.recomputation import Chooser, Saving
from fitroom.steps.state import State
from fitroom.steps.step import Phase, Step


class Prediction(Step):
    """A model's `predict_step`.

    Args:
        model: a Keras model.
        brings_home: whether outputs go to the host's memory at once. Keras keeps those of all batches to the end.
    """

    phase: Phase = "gradients"
    trains = False

    def __init__(self, model: Any, *, brings_home: bool) -> None:
        self.model = model
        self.brings_home = brings_home
        options: dict[str, Any] = {"jit_compile": bool(model.jit_compile), "eager": bool(model.run_eagerly)}
        self._step = Compiled(self._predict, **options)
        self._writes: dict[int, State] = {}  # by function: prediction writes nothing, unless a layer does
        self._before: tuple[State, list[Any]] | None = None
        self._obstacles: list[mixing.Obstacle] | None = None

    def _predict(self, data: Any) -> Any:
        outputs = self.model.distribute_strategy.run(self.model.predict_step, args=(data,))
        return outputs if replicas.count(outputs) > 1 else keras_seams.concatenated(self.model, outputs)

    def whole(self, data: Any, like: Any) -> Any:
        self._remember(data, like)
        outputs = self._step(data)
        self._before = None
        if self.brings_home:
            return joined([tf.nest.map_structure(_home, own) for own in replicas.parts(outputs)])
        return keras_seams.concatenated(self.model, outputs) if replicas.count(outputs) > 1 else outputs

    def sliced(self, data: Any, bounds: Iterable[tuple[int, int]]) -> Any:
        by_replica: list[list[Any]] = []
        for start, stop in bounds:
            part = slicing.cut(data, start, stop)
            if not by_replica:
                self._remember(part, any_batch(part))
            elif not self._step.eager:
                self._step.concrete((part,), like=(any_batch(part),))
            outputs = [tf.nest.map_structure(_home, own) for own in replicas.parts(self._step(part))]
            by_replica = [
                [*slices, own] for slices, own in zip(by_replica or [[]] * len(outputs), outputs, strict=True)
            ]
        self._before = None
        return joined([part for slices in by_replica for part in slices])

    def _remember(self, data: Any, like: Any) -> None:
        if not self._step.eager:
            function = self._step.concrete((data,), like=None if like is None else (like,))
            if id(function) not in self._writes:
                self._writes[id(function)] = State(graph_seams.written_variables(function))
            state = self._writes[id(function)]
            self._before = state, state.read()

    def most_alive(self, data: Any, like: Any) -> int | None:
        if self._step.eager:
            return None
        self._step.concrete((data,), like=None if like is None else (like,))
        return self._step.most_alive(data, self.samples(data))

    def roll_back(self) -> None:
        if self._before is not None:
            state, values = self._before
            state.write(values)
            self._before = None

    def tighten(self) -> bool:
        return False

    def recompute(self, data: Any, like: Any, choose: Chooser, samples: int | None = None) -> Saving | None:
        return None

    def layers(self) -> list[str]:
        return [layer.name for layer in keras_seams.all_layers(self.model)]

    def own_bytes(self) -> int:
        return keras_seams.variable_bytes(self.model)

    def obstacles(self, data: Any) -> list[mixing.Obstacle]:
        if self._obstacles is None:
            self._obstacles = self._probed(data)
        return list(self._obstacles)

    def _probed(self, data: Any) -> list[mixing.Obstacle]:
        if not mixing.is_unknown(self.model) and keras_seams.uses_keras_own_step(self.model, "predict_step"):
            return []
        for count in (5, 2):
            few = slicing.spread(data, min(count, self.samples(data)))
            samples = slicing.batch_size(few)
            try:
                whole, parts = (
                    tf.nest.flatten(self._tried(few, cuts))
                    for cuts in (((0, samples),), ((0, samples - 1), (samples - 1, samples)))
                )
            except tf.errors.ResourceExhaustedError:
                continue
            if all(np.allclose(one, other, rtol=1e-3, atol=1e-6) for one, other in zip(whole, parts, strict=True)):
                return []
            return [mixing.Obstacle("the model", "mixes samples: slices predict otherwise than the batch")]
        return [mixing.Obstacle("the model", "could not be tried on two samples: memory ran out", can_be_allowed=False)]

    def _tried(self, data: Any, cuts: Any) -> Any:
        self._remember(data, any_batch(data))
        before = self._before
        try:
            return self.sliced(data, cuts)
        finally:
            if before is not None:
                before[0].write(before[1])
            self._before = None

    def random_layers(self) -> list[str]:
        return []

    def hidden_random(self) -> set[str]:
        return set()


def _home(output: Any) -> Any:
    if isinstance(output, (tf.RaggedTensor, tf.SparseTensor)):
        return output
    # A copy: on a CPU the array that TensorFlow gives shares the tensor's memory.
    return np.array(output.numpy(), copy=True)


def joined(parts: list[Any]) -> Any:
    """The outputs of several parts, one after the other."""

    def join(*leaves: Any) -> Any:
        return np.concatenate(leaves) if isinstance(leaves[0], np.ndarray) else tf.concat(leaves, 0)

    return tf.nest.map_structure(join, *parts)
