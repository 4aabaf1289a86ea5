"""Every training of a script, met before it begins: `fit`, `train_on_batch`, a step function, a loop under a tape."""

from __future__ import annotations

import functools
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from fitroom.core import Plan
from fitroom.errors import UsageError
from fitroom.estimator.estimates import Estimate
from fitroom.estimator.estimating import estimate_here
from fitroom.steps import mixing
from fitroom.steps.mixing import Obstacle
from fitroom.training import every_function, function_seams, keras_seams, stand_ins, step_estimates
from fitroom.training.arguments import Arguments
from fitroom.training.functions import GuardedFunction


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

_DEFAULT_BATCH = 32


def install(take: Take, told: dict[str, Any]) -> None:
    """Have `take` called at every training; `told` has the batch size to estimate it at, or None for its own."""
    trainings = _Trainings(take, told["batch_size"])
    trainings.watch_models()
    trainings.watch_functions()
    trainings.watch_loops()


class _Trains(BaseException):
    """A function that turns out to train, while it is traced: it is not run."""


class _Thread(threading.local):
    """What is going on in one thread."""

    def __init__(self) -> None:
        self.is_ours = False  # what we do ourselves is no training of the script's
        self.watched = 0  # functions being called, of which it is not known whether they train
        self.called: list[tuple[Any, Arguments]] = []  # models under a tape, line by line, since the last update


class _Trainings:
    def __init__(self, take: Take, batch: int | None) -> None:
        self._take = take
        self._batch = batch
        self._met: dict[int, Any] = {}  # what was met, kept alive: another object could get its id
        self._thread = _Thread()

    # --- Keras' own ------------------------------------------------------------------------------------------------

    def watch_models(self) -> None:
        """`fit` and `train_on_batch` of every model."""
        plain_fit, plain_train = keras.Model.fit, keras.Model.train_on_batch

        @functools.wraps(plain_fit)
        def fit(
            model: Any, x: Any = None, y: Any = None, batch_size: int | None = None, *rest: Any, **more: Any
        ) -> Any:
            if self._thread.is_ours:
                return plain_fit(model, x, y, batch_size, *rest, **more)
            self._meet(
                "fit",
                lambda plan: _estimated(model, x, y, self._batch, batch_size, plan),
                lambda: mixing.obstacles(model),
            )
            return stand_ins.history(model, more.get("epochs", rest[0] if rest else 1))

        @functools.wraps(plain_train)
        def train_on_batch(model: Any, x: Any, y: Any = None, *rest: Any, **more: Any) -> Any:
            if self._thread.is_ours:
                return plain_train(model, x, y, *rest, **more)
            self._meet_once(
                model,
                "train_on_batch",
                lambda plan: _estimated(model, x, y, self._batch, _samples(x), plan),
                lambda: mixing.obstacles(model),
            )
            return {"loss": 0.0} if more.get("return_dict") else 0.0

        keras.Model.fit, keras.Model.train_on_batch = fit, train_on_batch

    # --- by hand ---------------------------------------------------------------------------------------------------

    def watch_functions(self) -> None:
        """Every `tf.function` that applies gradients, `fitroom.step` and `strategy.run` of one."""

        def call(function: Any, plain: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            trains = False if self._thread.is_ours else every_function.trains(function)
            if trains is None:
                self._thread.watched += 1
                try:
                    return plain(*args, **kwargs)
                except _Trains:
                    trains = True
                finally:
                    self._thread.watched -= 1
            return self._step(function, args, kwargs) if trains else plain(*args, **kwargs)

        def before_apply() -> None:
            if self._thread.watched and not self._thread.is_ours:
                raise _Trains

        function_seams.intercept_calls(call)
        function_seams.intercept_apply(before_apply)
        plain_guarded, plain_run = GuardedFunction.__call__, tf.distribute.Strategy.run

        def guarded(function: Any, *args: Any, **kwargs: Any) -> Any:
            if self._thread.is_ours:
                return plain_guarded(function, *args, **kwargs)
            return self._step(function.function, args, kwargs)

        @functools.wraps(plain_run)
        def run(strategy: Any, fn: Any, args: Any = (), kwargs: Any = None, options: Any = None) -> Any:
            is_function = hasattr(fn, "python_function") and tf.executing_eagerly()
            if self._thread.is_ours or not is_function or not every_function.trains(fn):
                return plain_run(strategy, fn, args, kwargs, options)
            return self._step(fn, tuple(args), dict(kwargs or {}))

        GuardedFunction.__call__ = guarded  # type: ignore[method-assign, assignment] # until the process ends
        tf.distribute.Strategy.run = run

    def _step(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = getattr(getattr(function, "python_function", function), "__name__", "a function")
        estimate = functools.partial(step_estimates.of_function, function, args, kwargs, self._batch)
        self._meet_once(function, name, estimate)
        return stand_ins.result(function, args, kwargs)

    def watch_loops(self) -> None:
        """Models that are called under a tape, line by line, and an optimizer that is given the gradients."""
        plain_call, plain_apply = keras.Model.__call__, keras.optimizers.Optimizer.apply

        @functools.wraps(plain_call)
        def __call__(model: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 # stands in for it
            if not self._thread.is_ours and keras_seams.is_recorded_eagerly():
                self._thread.called.append((model, Arguments(args, kwargs)))
            return plain_call(model, *args, **kwargs)

        @functools.wraps(plain_apply)
        def apply(optimizer: Any, gradients: Any, variables: Any = None, **kwargs: Any) -> Any:
            if self._thread.is_ours or not tf.executing_eagerly():
                return plain_apply(optimizer, gradients, variables, **kwargs)
            called, self._thread.called = self._thread.called, []
            model, call = _trained_by(called, variables) or (None, None)
            self._meet_once(
                optimizer if model is None else model,
                "a loop under a GradientTape",
                lambda plan: _of_loop(model, optimizer, call, self._batch, plan),
                lambda: [] if model is None else mixing.obstacles(model),
            )
            return None

        keras.Model.__call__ = __call__
        keras.optimizers.Optimizer.apply = apply

    # --- both ------------------------------------------------------------------------------------------------------

    def _meet_once(self, thing: Any, *training: Any) -> None:
        if id(thing) not in self._met:
            self._met[id(thing)] = thing
            self._meet(*training)

    def _meet(
        self, what: str, estimate: Callable[[Plan], Estimate], obstacles: Callable[[], list[Obstacle]] = list
    ) -> None:
        self._thread.is_ours = True
        try:
            self._take(Training(f"{_place()} {what}", estimate, obstacles))
        finally:
            self._thread.is_ours = False


def _estimated(model: Any, x: Any, y: Any, asked: int | None, own: int | None, plan: Plan) -> Estimate:
    """What `fit` or `train_on_batch` takes, at the size that is asked for, or at their own."""
    if hasattr(x, "__next__"):  # nothing comes after this: it may be used up
        batch = next(x)
        inputs, targets, *_ = (*batch, None) if isinstance(batch, tuple | list) else (batch, None)
        return estimate_here(model, asked or _samples(batch), inputs, targets, plan)
    if isinstance(x, tf.data.Dataset):
        first: Any = next(iter(x.take(1)), None)
        size = _samples(first)
    elif isinstance(x, keras.utils.PyDataset):
        size = _samples(x[0])
    else:
        size = min(own or _DEFAULT_BATCH, _samples(x))
    return estimate_here(model, asked or size, x, y, plan)


def _of_loop(model: Any, optimizer: Any, call: Any, batch: int | None, plan: Plan) -> Estimate:
    if model is None:
        raise UsageError(
            "A loop under a GradientTape trains what is not one model, or what was not called with a batch",
            hint="put the step into a function with @tf.function",
        )
    return step_estimates.of_loop(model, optimizer, call, batch, plan)


def _trained_by(called: list[tuple[Any, Arguments]], variables: Any) -> tuple[Any, Arguments] | None:
    """The one model of those that were called whose weights are given to the optimizer, and its first batch."""
    given = {id(one) for one in variables or ()}
    found: dict[int, tuple[Any, Arguments, set[int]]] = {}
    for model, call in called:
        own = {id(one) for one in model.trainable_variables}
        if call.samples and own and (own <= given if given else True):
            found.setdefault(id(model), (model, call, own))
    # A model may be a part of another one that was called, too.
    whole = [one for one in found.values() if not any(one[2] < other[2] for other in found.values())]
    covers = len(whole) == 1 and (not given or given <= whole[0][2])
    return (whole[0][0], whole[0][1]) if covers else None


def _place() -> str:
    """The line of the script that trains."""
    for frame, line in traceback.walk_stack(None):
        path = frame.f_code.co_filename
        if not function_seams.is_library(frame.f_code) and not path.startswith("<"):
            return f"{Path(path).name}:{line}"
    return ""


def _samples(data: Any) -> int:
    leaves = [leaf for leaf in tf.nest.flatten(data) if getattr(leaf, "shape", ())]
    if leaves:
        return int(leaves[0].shape[0])
    return len(data) if isinstance(data, list) else _DEFAULT_BATCH
