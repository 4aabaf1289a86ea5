"""A model's training or evaluation as Keras itself has it: each loss can be weighed, each tracker fed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fitroom.oom import Exhaustion
from fitroom.steps import extras, keras_seams, mixing, probe, replicas, slicing
from fitroom.steps.fused_step import FusedStep
from fitroom.steps.keras_pass import KerasPass
from fitroom.steps.recomputation import Chooser, Recomputation, Saving
from fitroom.steps.state import State
from fitroom.steps.step import Phase, Step
from fitroom.steps.uninterrupted import uninterrupted
from fitroom.steps.update import Update


class KerasStep(Step):
    """A compiled model's `train_step` or `test_step`, where they are Keras' own.

    Args:
        model: compiled.
        trains: whether this is the training step.
    """

    phase: Phase = "gradients"

    def __init__(self, model: Any, *, trains: bool = True) -> None:
        self.model = model
        self.trains = trains
        self.passes = KerasPass(model, trains=trains)
        self._update: Update | None = None
        self._before: tuple[State, list[Any]] | None = None
        self._like: Any = None
        self._ready_to_slice = False
        self._obstacles: list[mixing.Obstacle] | None = None
        self._may_be_fused = trains
        self._fused: FusedStep | None = None

    def whole(self, data: Any, like: Any) -> Any:
        self.phase, self._like = "gradients", like
        fused = self._as_one()
        if fused is not None:
            return fused(data, like)
        self.passes.trace(data, like)
        self._remember()
        logs, gradients = self.passes.whole(data)
        self._finish(gradients)
        return logs

    def sliced(self, data: Any, bounds: Iterable[tuple[int, int]]) -> Any:
        self.phase = "gradients"
        self._take_apart()
        samples = slicing.sizes(data)
        if not self._ready_to_slice:
            self.passes.trace(data, self._like)
            self.passes.extras = extras.kinds(self.model, data, training=self.trains)
            self.passes.forget_whole()
            self._ready_to_slice = True
        self.passes.begin(data)
        self.passes.trace_slice(slicing.cut(data, 0, 1), samples)
        self._remember()
        totals = self.passes.totals(data)
        tracked: list[Any] | None = None
        sparse: list[list[Any]] = []
        for start, stop in bounds:
            fed, rows = self.passes.slice(slicing.cut(data, start, stop), samples, totals)
            tracked = fed if tracked is None else replicas.each(_sums, tracked, fed)
            sparse.append(rows)
        logs = self.passes.finish(tracked or [], samples)
        self._finish(self.passes.gradients(sparse))
        return logs

    def most_per_sample(self) -> int | None:
        return self.passes.most_per_sample()

    def most_alive(self, data: Any, like: Any) -> int | None:
        fused = self._as_one()
        if fused is not None:
            fused.trace(data, like)
            return fused.most_alive(data, self.samples(data))
        self.passes.trace(data, like)
        return self.passes.most_alive(data, self.samples(data))

    def trained(self) -> list[Any]:
        return self.passes.variables or list(self.model.trainable_variables if self.trains else [])

    def roll_back(self) -> None:
        if self._fused is not None:
            self._fused.roll_back()
        if self._before is not None:
            state, values = self._before
            state.write(values)
            self._before = None
        self.passes.release()

    def tighten(self) -> bool:
        return self._update is not None and self._update.tighten()

    def survived(self) -> list[Exhaustion]:
        return self._update.take_survived() if self._update is not None else []

    def recompute(self, data: Any, like: Any, choose: Chooser, samples: int | None = None) -> Saving | None:
        if not self.trains or self.model.run_eagerly:
            return None
        size = samples or self.samples(data)
        recomputation = Recomputation(choose, samples=size, xla=bool(self.model.jit_compile))
        passes = KerasPass(self.model, recomputation=recomputation)
        passes.trace(data, like)
        if recomputation.saving is not None:
            self.passes, self._like, self._ready_to_slice = passes, like, False
            self._take_apart()
        return recomputation.saving

    def written_variables(self) -> list[Any]:
        return self._fused.written_variables() if self._fused is not None else self.passes.state().variables

    def layers(self) -> list[str]:
        return [layer.name for layer in keras_seams.all_layers(self.model)]

    def own_bytes(self) -> int:
        return keras_seams.variable_bytes(self.model)

    def obstacles(self, data: Any) -> list[mixing.Obstacle]:
        if self._obstacles is None:
            found = mixing.obstacles(self.model) if self.trains else []
            is_known = not mixing.is_unknown(self.model) and (self.trains or not mixing.has_own_metrics(self.model))
            if not found and not is_known:
                found = probe.keras_step(self.model, data, trains=self.trains)
            self._obstacles = found
        return list(self._obstacles)

    def random_layers(self) -> list[str]:
        return mixing.random_layers(self.model) if self.trains else []

    def hidden_random(self) -> set[str]:
        return self.passes.hidden_random | (self._fused.hidden_random if self._fused is not None else set())

    def _as_one(self) -> FusedStep | None:
        """The step as one program, where that is better; known when the model is built."""
        if self._may_be_fused and self.model.built:
            self._may_be_fused = False
            self._fused = FusedStep(self.model) if FusedStep.is_for(self.model) else None
        return self._fused

    def _take_apart(self) -> None:
        self._may_be_fused, self._fused = False, None

    def _remember(self) -> None:
        state = self.passes.state()
        self._before = state, state.read()

    def _finish(self, gradients: list[Any]) -> None:
        if not self.trains:
            self._before = None
            return
        if self._update is None:
            self._update = Update.of(self.model, self.passes.variables)
        self.phase = "update"
        with uninterrupted():
            self._update(gradients)
            self._before = None


def _sums(some: list[Any], others: list[Any]) -> list[Any]:
    return [one + other for one, other in zip(some, others, strict=True)]
