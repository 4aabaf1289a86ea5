"""Every training of a script, met before it begins: `fit`, `train_on_batch`, a step function, a loop under a tape."""

from __future__ import annotations

import functools
import itertools
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from fitroom.core import Plan
from fitroom.errors import UsageError
from fitroom.estimator.by_hand import StepMeasurement, Trained
from fitroom.estimator.estimating import Estimate, estimate_here, estimate_step
from fitroom.steps import mixing
from fitroom.steps.compiled import Compiled
from fitroom.steps.mixing import Obstacle
from fitroom.steps.own_step import OwnStep
from fitroom.steps.sites import Unsupported
from fitroom.training import every_function, function_seams, keras_seams, stand_ins
from fitroom.training.arguments import Arguments
from fitroom.training.functions import function_step


class Training(NamedTuple):
    """A training of the script, before it begins.

    Attributes:
        where: its place in the script.
        estimate: what it takes with a plan.
        obstacles: gives what speaks against slices of its batch.
    """

    where: str
    estimate: Callable[[Plan], Estimate]
    obstacles: Callable[[], list[Obstacle]]


Take = Callable[[Training], None]

_DATASETS = (tf.data.Dataset, tf.distribute.DistributedDataset)
_DEFAULT_BATCH = 32


def install(take: Take, told: dict[str, Any]) -> None:
    """Have `take` called at every training; `told` has the batch size to estimate it at, or None for its own."""
    trainings = _Trainings(take, told["batch_size"])
    for name in ("fit", "train_on_batch"):
        plain = getattr(keras.Model, name)
        setattr(keras.Model, name, functools.wraps(plain)(getattr(trainings, name)))
    trainings.watch_functions()
    trainings.watch_loops()


class _Trainings:
    def __init__(self, take: Take, batch: int | None) -> None:
        self._take = take
        self._batch = batch
        self._met: set[tuple[int, str]] = set()
        self._inside = False  # what we do ourselves is no training of the script's
        self._called: tuple[Any, Arguments, Any] | None = None  # under a tape, line by line

    # --- Keras' own ------------------------------------------------------------------------------------------------

    @property
    def fit(self) -> Callable[..., Any]:
        """What stands in for `keras.Model.fit`."""

        def fit(
            model: Any, x: Any = None, y: Any = None, batch_size: int | None = None, *rest: Any, **more: Any
        ) -> Any:
            if self._inside:
                return plain(model, x, y, batch_size, *rest, **more)
            x, first = _first_batch(x)
            size = self._batch or batch_size or (_samples(first) if first is not None else _DEFAULT_BATCH)
            if first is not None and not isinstance(x, tf.data.Dataset | keras.utils.PyDataset):
                data = first if isinstance(first, tuple) else (first,)
                self._meet_model("fit", model, size, *(*data, None)[:2])
            else:
                self._meet_model("fit", model, size, x, y)
            return stand_ins.history(model, more.get("epochs", rest[0] if rest else 1))

        plain = keras.Model.fit
        return fit

    @property
    def train_on_batch(self) -> Callable[..., Any]:
        """What stands in for `keras.Model.train_on_batch`."""

        def train_on_batch(model: Any, x: Any, y: Any = None, *rest: Any, **more: Any) -> Any:
            if self._inside:
                return plain(model, x, y, *rest, **more)
            if (id(model), "train_on_batch") not in self._met:
                self._met.add((id(model), "train_on_batch"))
                self._meet_model("train_on_batch", model, self._batch or _samples(x), x, y)
            return {"loss": 0.0} if more.get("return_dict") else 0.0

        plain = keras.Model.train_on_batch
        return train_on_batch

    def _meet_model(self, what: str, model: Any, size: int, x: Any, y: Any) -> None:
        self._meet(what, lambda plan: estimate_here(model, size, x, y, plan), lambda: mixing.obstacles(model))

    # --- by hand ---------------------------------------------------------------------------------------------------

    def watch_functions(self) -> None:
        """Every `tf.function` that applies gradients."""

        def call(function: Any, plain: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if self._inside or not every_function.trains(function):
                return plain(*args, **kwargs)
            key = id(function), "function"
            if key not in self._met:
                self._met.add(key)
                name = getattr(function.python_function, "__name__", "a function")
                self._meet(name, lambda plan: self._by_hand(function, args, kwargs, plan))
            return stand_ins.result(function, args, kwargs)

        function_seams.intercept_calls(call)

    def watch_loops(self) -> None:
        """A model that is called under a tape, line by line, and an optimizer that is given its gradients."""
        plain_call, plain_apply = keras.Model.__call__, keras.optimizers.Optimizer.apply

        @functools.wraps(plain_call)
        def __call__(model: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 # stands in for it
            if not self._inside and self._called is None and keras_seams.is_recorded_eagerly():
                self._called = model, Arguments(args, kwargs), (args, kwargs)
            try:
                return plain_call(model, *args, **kwargs)
            finally:
                if self._called is not None and self._called[0] is model and not self._called[1].samples:
                    self._called = None

        @functools.wraps(plain_apply)
        def apply(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if self._inside or not tf.executing_eagerly() or self._called is None:
                return plain_apply(optimizer, *args, **kwargs)
            model, call, _ = self._called
            self._called = None
            if (id(model), "loop") in self._met:
                return None
            self._met.add((id(model), "loop"))
            self._meet(
                "a loop under a GradientTape",
                lambda plan: self._loop(model, optimizer, call, plan),
                lambda: mixing.obstacles(model),
            )
            return None

        keras.Model.__call__ = __call__
        keras.optimizers.Optimizer.apply = apply

    def _by_hand(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], plan: Plan) -> Estimate:
        call = Arguments(args, kwargs)
        if call.samples:
            return self._measured(function_step(function, call), call, plan)
        data = [one for one in (*args, *kwargs.values()) if isinstance(one, _DATASETS)]
        first = next(iter(data[0]), None) if len(data) == 1 else None
        if first is None:
            raise UsageError(
                "The step is given nothing with a batch axis",
                received=", ".join(type(one).__name__ for one in (*args, *kwargs.values())) or "no arguments",
                expected="a batch of arrays or tensors, or a dataset",
            )
        step = _OverOneBatch(function, args, kwargs, first)
        size = self._batch or _samples(first)
        found = StepMeasurement(step, step.trained, tf.nest.flatten(first), (), size)
        return estimate_step(found, size, plan)

    def _loop(self, model: Any, optimizer: Any, call: Arguments, plan: Plan) -> Estimate:
        def step(*args: Any, **kwargs: Any) -> Any:
            with tf.GradientTape() as tape:
                given = tf.nest.flatten(model(*args, **kwargs))
                loss = tf.add_n([tf.reduce_mean(tf.cast(one, tf.float32)) for one in given])
            weights = model.trainable_variables
            optimizer.apply(tape.gradient(loss, weights), weights)

        found = self._measured(function_step(step, call), call, plan)
        return found.with_note(
            "Of the model's call, its gradients and the update; what the script's loss takes is not in it."
        )

    def _measured(self, step: OwnStep, call: Arguments, plan: Plan) -> Estimate:
        size = self._batch or call.samples
        arrays, others = call.data
        try:
            found = StepMeasurement(step, lambda: _trained(step), arrays, others, size)
            return estimate_step(found, size, plan)
        except Unsupported as error:
            raise UsageError("The step cannot be estimated", received=str(error)) from error

    # --- both ------------------------------------------------------------------------------------------------------

    def _meet(
        self, what: str, estimate: Callable[[Plan], Estimate], obstacles: Callable[[], list[Obstacle]] = list
    ) -> None:
        self._inside = True
        try:
            self._take(Training(f"{_place()} {what}", estimate, obstacles))
        finally:
            self._inside = False


class _OverOneBatch:
    """A function that loops over a dataset, given datasets of one batch."""

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], batch: Any) -> None:
        self._compiled = Compiled(self._one_batch)
        self._given = function, args, kwargs, batch

    def _one_batch(self, data: Any) -> Any:
        function, args, kwargs, batch = self._given
        dataset = tf.data.Dataset.from_tensors(tf.nest.pack_sequence_as(batch, data[0]))
        put = functools.partial(tf.nest.map_structure, lambda one: dataset if isinstance(one, _DATASETS) else one)
        return function(*map(put, args), **{name: put(value) for name, value in kwargs.items()})

    def whole(self, data: Any, like: Any) -> Any:
        self._compiled.concrete((data,), like=(like,))
        return self._compiled(data)

    def sliced(self, data: Any, bounds: Any) -> Any:
        raise self._in_one_piece()

    def recompute(self, data: Any, like: Any, choose: Any, samples: int | None = None) -> Any:
        raise self._in_one_piece()

    def _in_one_piece(self) -> UsageError:
        return UsageError(
            "The step loops over a dataset, and what runs inside one function cannot be cut",
            received=self._given[0].__name__,
            hint="loop outside of it, and give the function one batch at a time; or leave the plan out",
        )

    def trained(self) -> Trained:
        """Its variables; which of them are an optimizer's own is not known."""
        (function,) = self._compiled.functions.values()
        return Trained([], function.graph.variables)


def _trained(step: OwnStep) -> Trained:
    optimizers = {id(site.optimizer): site.optimizer for site in step.sites}
    variables = {id(one): one for site in step.sites for one in site.variables}
    return Trained(list(optimizers.values()), list(variables.values()), step.written.small.variables)


def _place() -> str:
    """The line of the script that trains."""
    for frame, line in traceback.walk_stack(None):
        path = frame.f_code.co_filename
        if not function_seams.is_library(frame.f_code) and not path.startswith("<"):
            return f"{Path(path).name}:{line}"
    return ""


def _first_batch(x: Any) -> tuple[Any, Any]:
    """The data, none of it used up, and their first batch; None where they are arrays."""
    if isinstance(x, tf.data.Dataset):
        return x, next(iter(x.take(1)), None)
    if isinstance(x, keras.utils.PyDataset):
        return x, x[0]
    if hasattr(x, "__next__"):
        first = next(x)
        return itertools.chain([first], x), tuple(first) if isinstance(first, list) else first
    return x, None


def _samples(data: Any) -> int:
    leaves = [leaf for leaf in tf.nest.flatten(data) if getattr(leaf, "shape", ())]
    return int(leaves[0].shape[0]) if leaves else _DEFAULT_BATCH
