"""`fitroom.guard` and `fitroom.unguard`: the hooks on a model, and what they lead to."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from typing import Any

from fitroom import devices
from fitroom.core import Event, Plan, RecordFile
from fitroom.core.noun import Scalar
from fitroom.devices import meter
from fitroom.remedies import read_allowed, read_plan
from fitroom.steps.gradients import Unsupported
from fitroom.training import keras_seams
from fitroom.training.guarded_step import GuardedStep
from fitroom.training.summary import closing_line
from fitroom.units import format_bytes

_HOOKS = ("make_train_function", "fit")


def guard(
    model: Any,
    budget: int | str | None = None,
    allow: str | tuple[str, ...] | list[str] = (),
    plan: Plan | str | None = None,
) -> Any:
    """Make a Keras model's `fit` and `train_on_batch` survive running out of memory.

    Where memory suffices, nothing changes: same weights, History, callbacks and output as plain Keras. Where it does
    not, the batch runs in slices, and makes the same one update.

    Args:
        model: a Keras 3 model on TensorFlow, compiled or not.
        budget: how many bytes may be used, such as "8GiB"; None for what there is.
        allow: remedies that may change the math, by name, such as "micro_batch" for models with BatchNormalization.
        plan: what to do from the start, such as "micro_batch=4"; None to decide when memory runs out.

    Returns:
        The same model.

    Raises:
        UsageError: if the budget, a remedy or the plan makes no sense.

    Example:
        >>> model = fitroom.guard(model)
        >>> model.fit(x, y, batch_size=512)
    """
    options = _Options(read_plan(plan), read_allowed(allow), _enforced(budget))
    problem = keras_seams.check(model)
    if problem is not None:
        warnings.warn(f"fitroom does not guard this model: {problem}. It trains as without fitroom.", stacklevel=2)
        return model
    if keras_seams.hooked(model) is not None:
        unguard(model)
    _Guard(model, options).install()
    return model


def unguard(model: Any) -> Any:
    """Take the guard off a model; it trains as plain Keras does. Returns the same model."""
    if keras_seams.hooked(model) is not None:
        keras_seams.unhook(model, _HOOKS)
    return model


def events(model: Any) -> tuple[Event, ...]:
    """What has happened to a guarded model so far."""
    found = keras_seams.hooked(model)
    return tuple(found.events) if found is not None else ()


def _enforced(asked: int | str | None) -> int | None:
    """The budget in bytes; where TensorFlow runs already and cannot keep to it any more, a warning says so."""
    if asked is None:
        return None
    budget = devices.enforce(devices.budget(asked))
    if not budget.enforced:
        warnings.warn(
            f"The budget of {format_bytes(budget.bytes)} only decides how large slices are: TensorFlow has started "
            "without this limit and may take more",
            stacklevel=3,
        )
    return budget.bytes


class _Options:
    def __init__(self, plan: Plan, allow: frozenset[str], budget: int | None) -> None:
        self.plan = plan
        self.allow = allow
        self.budget = budget


class _Guard:
    """The guard on one model: makes its training function, keeps its events, says the closing line."""

    def __init__(self, model: Any, options: _Options) -> None:
        self.model = model
        self.options = options
        self.events: list[Event] = []
        self._said = 0
        self._in_fit = False
        path = os.environ.get("FITROOM_RECORD")
        self._file = RecordFile(path) if path else None

    def install(self) -> None:
        plain_fit = self.model.fit

        @functools.wraps(plain_fit)
        def fit(*args: Any, **kwargs: Any) -> Any:
            self._in_fit = True
            try:
                history = plain_fit(*args, **kwargs)
            finally:
                self._in_fit = False
            self.say()  # where fit raised, the error tells what there is to tell
            return history

        keras_seams.hook(self.model, self, make_train_function=self.make_train_function, fit=fit)

    def make_train_function(self, force: bool = False) -> Any:
        """Stands in for Keras' method of this name."""
        model = self.model
        if model.train_function is not None and not force:
            return model.train_function
        if model.optimizer is None or model.distribute_strategy.num_replicas_in_sync > 1:
            what = "has no optimizer" if model.optimizer is None else "trains on several replicas"
            return self._give_up(f"the model {what}")
        budget = self.options.budget
        step = GuardedStep(model, self.options.plan, self.options.allow, meter.find(budget), self.tell)

        batches: keras_seams.Batches | None = None

        def train_function(iterator: Any) -> Any:
            nonlocal batches
            if batches is None or batches.source is not iterator:
                batches = keras_seams.Batches(iterator)
            logs = None
            for _ in range(model.steps_per_execution):
                try:
                    data = next(batches)
                except StopIteration:
                    if logs is None:
                        raise
                    break
                try:
                    logs = step(data, batches.like)
                except Unsupported as error:
                    return self._give_up(str(error))(iter([data]))
            if not self._in_fit:
                self.say()
            return logs

        model.train_function = train_function
        return None

    def tell(self, kind: str, **data: Scalar) -> None:
        """Take an event into the record."""
        event = self._file.append(kind, **data) if self._file else Event.now(kind, **data)
        self.events.append(event)

    def say(self) -> None:
        """Say what has happened since the last time; nothing where nothing has."""
        line = closing_line(self.events[self._said :])
        self._said = len(self.events)
        if line is not None:
            print(line, file=sys.stderr)

    def _give_up(self, reason: str) -> Any:
        warnings.warn(f"fitroom does not guard this training: {reason}. It runs as without fitroom.", stacklevel=3)
        self.model.train_function = keras_seams.plain_function(self.model)
        return self.model.train_function
