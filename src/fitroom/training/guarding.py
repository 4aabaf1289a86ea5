"""`fitroom.guard` and `fitroom.unguard`: the hooks on a model, and what they lead to."""

from __future__ import annotations

import functools
import itertools
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fitroom.core import Event, Plan
from fitroom.devices import meter
from fitroom.steps.model_step import model_step
from fitroom.steps.prediction import Prediction, joined
from fitroom.steps.sites import Unsupported
from fitroom.steps.step import Step
from fitroom.training import keras_seams
from fitroom.training.eager_calls import EagerCalls
from fitroom.training.guarded_step import GuardedStep
from fitroom.training.log import Log
from fitroom.training.options import Options
from fitroom.training.remembered import remembered_for

_SPEAKING = ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch")
_HOOKS = ("make_train_function", "make_test_function", "make_predict_function", "call", *_SPEAKING)


def guard(
    model: Any,
    budget: int | str | None = None,
    allow: str | tuple[str, ...] | list[str] = (),
    plan: Plan | str | None = None,
) -> Any:
    """Make a Keras model's training, evaluation and prediction survive running out of memory.

    Where memory suffices, nothing changes: same weights, History, callbacks and output as plain Keras. Where it does
    not, the batch runs in slices, and makes the same one update; where samples mix, activations are computed again
    instead of kept, which makes the same update, too.

    Args:
        model: a Keras 3 model on TensorFlow, compiled or not.
        budget: how many bytes may be used, such as "8GiB"; None for what there is.
        allow: remedies that may change the math, by name, such as "micro_batch" for models with BatchNormalization.
        plan: what to do from the start: "micro_batch=4", "recompute" or both; None to decide when memory runs out.

    Returns:
        The same model.

    Raises:
        UsageError: if the budget, a remedy or the plan makes no sense.

    Example:
        >>> model = fitroom.guard(model)
        >>> model.fit(x, y, batch_size=512)
    """
    return guard_with(model, Options.read(budget, allow, plan))


def guard_with(model: Any, options: Options) -> Any:
    """The same, with options that have been read."""
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
    return tuple(found.log.events) if found is not None else ()


class _Guard:
    """The guard on one model: makes its functions, keeps its events, says the closing line."""

    def __init__(self, model: Any, options: Options) -> None:
        self.model = model
        self.options = options
        self.log = Log()
        self._depth = 0
        self._train_step: Step | None = None

    def install(self) -> None:
        spoken = {name: self.speaking(getattr(self.model, name)) for name in _SPEAKING}
        keras_seams.let_outputs_be_arrays()
        calls = EagerCalls(self.model, lambda: meter.find(self.options.budget), self.options.allow, self._tell_of_call)
        keras_seams.hook(
            self.model,
            self,
            make_train_function=self._maker("train_function", self._train_function),
            make_test_function=self._maker("test_function", self._test_function),
            make_predict_function=self._maker("predict_function", self._predict_function),
            call=calls.hook(),
            **spoken,
        )

    def speaking(self, plain: Any) -> Any:
        """A method that says the closing line at its end, unless another of them called it."""

        @functools.wraps(plain)
        def method(*args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            try:
                result = plain(*args, **kwargs)
            finally:
                self._depth -= 1
            if not self._depth:
                self.log.say()  # where it raised, the error tells what there is to tell
            return result

        return method

    def written(self) -> list[Any]:
        """The variables that the training step writes, as far as it has been traced."""
        return self._train_step.written_variables() if self._train_step is not None else []

    def _tell_of_call(self, kind: str, **data: Any) -> None:
        self.log.says_at_exit = True
        self.log.tell(kind, of="call", **data)

    # --- the functions that Keras asks for -------------------------------------------------------------------------

    def _maker(self, name: str, make: Callable[[], Any]) -> Callable[..., Any]:
        """Stands in for the method of Keras that makes the function of this name."""

        def make_function(force: bool = False) -> Any:
            if getattr(self.model, name) is None or force:
                reason = self._reason_not_to(name)
                setattr(self.model, name, make() if reason is None else self._given_up(name, reason))
            return getattr(self.model, name)

        return make_function

    def _reason_not_to(self, name: str) -> str | None:
        if self.model.distribute_strategy.num_replicas_in_sync > 1:
            return "the model runs on several replicas"
        if name == "train_function" and getattr(self.model, "optimizer", None) is None:
            return "the model has no optimizer"
        return None

    def _train_function(self) -> Any:
        self._train_step = model_step(self.model, "train_step")
        return self._over_iterator("train_function", self._train_step, "train")

    def _test_function(self) -> Any:
        return self._over_iterator("test_function", model_step(self.model, "test_step"), "evaluate")

    def _predict_function(self) -> Any:
        found = meter.find(self.options.budget)
        step = self._guarded(Prediction(self.model, brings_home=found is not None), "predict", found)

        def predict_function(data: list[Any]) -> Any:
            outputs = [step(keras_seams.without_optionals(one)) for one in data]
            return outputs[0] if len(outputs) == 1 else joined(outputs)

        return predict_function

    def _over_iterator(self, name: str, step: Step, what: str) -> Any:
        model = self.model
        found = meter.find(self.options.budget)
        guarded = self._guarded(step, what, found)
        self.log.begins(found)
        batches: keras_seams.Batches | None = None
        is_traced = False

        def function(iterator: Any) -> Any:
            nonlocal batches, is_traced
            if batches is None or not batches.are_of(iterator):
                batches = keras_seams.Batches(iterator)
            logs = None
            for done in range(model.steps_per_execution):
                begun = time.perf_counter()
                try:
                    data = next(batches)
                except StopIteration:
                    if logs is None:
                        raise
                    break
                there = time.perf_counter()
                try:
                    logs = guarded(data, batches.like)
                    times = (there - begun, time.perf_counter() - there) if is_traced else (0.0, 0.0)
                    is_traced = True  # the first step takes longer than all others
                    self.log.made_step(*times, iterator)
                except Unsupported as error:
                    rest = itertools.islice(batches, model.steps_per_execution - done - 1)
                    plain = self._given_up(name, str(error))
                    setattr(model, name, plain)
                    return plain(batches.again([data, *rest]))
            return logs

        return function

    def _guarded(self, step: Step, what: str, found: meter.Meter | None) -> GuardedStep:
        options = self.options if what == "train" else replace(self.options, plan=Plan())
        remembered = remembered_for(what, found, self.model, getattr(self.model, "optimizer", None))
        return GuardedStep(step, options, found, functools.partial(self.log.tell, of=what), remembered)

    def _given_up(self, name: str, reason: str) -> Any:
        """Plain Keras' function."""
        self.log.left_alone(f"the model {self.model.name}", reason)
        return keras_seams.plain_function(self.model, name)
