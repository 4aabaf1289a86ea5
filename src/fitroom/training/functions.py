"""`fitroom.step`: a hand-written training function, made as safe as `fit`."""

from __future__ import annotations

import functools
import hashlib
import time
import warnings
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from fitroom.core import Event, Plan
from fitroom.devices import meter
from fitroom.errors import UsageError
from fitroom.steps import graph_seams, keras_seams, mixing, replicas, slicing
from fitroom.steps.compiled import any_batch
from fitroom.steps.own_step import OwnStep
from fitroom.steps.sites import NoUpdate, Unsupported
from fitroom.training import dataset_loops, function_seams, looking_ahead
from fitroom.training.arguments import Arguments
from fitroom.training.does_not_fit import DoesNotFit
from fitroom.training.guarded_step import GuardedStep, as_tensors
from fitroom.training.log import Log
from fitroom.training.options import Options
from fitroom.training.remembered import remembered_for

_MOST = 8  # kinds of call; with more, an argument that should be a tensor is a Python number


def step(
    function: Callable[..., Any] | None = None,
    *,
    model: Any = None,
    optimizer: Any = None,
    budget: int | str | None = None,
    allow: str | tuple[str, ...] | list[str] = (),
    plan: Plan | str | None = None,
) -> Any:
    """Make a hand-written training step survive running out of memory.

    The function computes gradients with a `tf.GradientTape` and applies them with a Keras optimizer, once or several
    times; it may be a `tf.function` or plain Python. Arguments with the batch's first axis are cut into slices where
    the batch does not fit. Scalar results are averaged, results per sample put together.

    Args:
        function: the step; without it, a decorator is returned.
        model: the Keras model that it trains, if it is one.
        optimizer: the optimizer that it uses.
        budget, allow, plan: as for `fitroom.guard`.

    Raises:
        UsageError: if this is no function, or the budget, a remedy or the plan makes no sense.

    Returns:
        A function with the same arguments and results; `.events` has what happened.

    Example:
        >>> @fitroom.step
        ... @tf.function
        ... def train_step(x, y):
        ...     with tf.GradientTape() as tape:
        ...         loss = loss_function(y, model(x, training=True))
        ...     gradients = tape.gradient(loss, model.trainable_variables)
        ...     optimizer.apply(gradients, model.trainable_variables)
        ...     return loss
    """
    if function is None:
        given = {"model": model, "optimizer": optimizer, "budget": budget, "allow": allow, "plan": plan}
        return functools.partial(step, **given)
    if not callable(function):
        raise UsageError("fitroom.step takes a function", received=repr(function), expected="def train_step(x, y): …")
    missing = keras_seams.check()
    if missing:
        warnings.warn(f"fitroom does not guard this step: Keras no longer has {missing}", stacklevel=2)
        return function
    return GuardedFunction(function, model, optimizer, Options.read(budget, allow, plan))


class GuardedFunction:
    """A function that stands in for the user's own.

    Args:
        function: the user's own.
        model: the Keras model that it trains, if it is known.
        optimizer: the optimizer that it uses, if it is known.
        options: how to guard it.
        plain: what to call where it cannot be guarded; the function itself, unless calls of it lead here.
        is_asked_for: whether the user wants it guarded, and is to be told where it trains nothing.
        log: where to tell what happens; one of its own, unless it is a part of something.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        model: Any,
        optimizer: Any,
        options: Options,
        plain: Callable[..., Any] | None = None,
        *,
        is_asked_for: bool = True,
        log: Log | None = None,
    ) -> None:
        self.function = function
        self.plain = plain or function
        self.model = model
        self.optimizer = optimizer
        self.options = options
        self.is_asked_for = is_asked_for
        python = function_seams.users_own(function)
        functools.update_wrapper(self, python, updated=())
        self.name = getattr(python, "__name__", type(python).__name__)
        self._log = log or Log(says_at_exit=True)
        self._steps: dict[Any, GuardedStep] = {}
        self._trains_nothing: set[Any] = set()  # kinds of call
        self._given_up = False
        self._loops_in_python = False  # over a dataset that it is given
        # What it has replicas run, guarded; and what must not go meanwhile, because its place in memory tells.
        self._runs: dict[Any, tuple[GuardedFunction, list[Any]]] = {}

    @property
    def events(self) -> tuple[Event, ...]:
        """What has happened so far."""
        return tuple(self._log.events)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result."""
        if self._given_up or not tf.executing_eagerly():
            return self.plain(*args, **kwargs)
        context = tf.distribute.get_replica_context()
        if context is not None and context.num_replicas_in_sync > 1:
            self._give_up("every replica calls it for itself. Try: a tf.function that calls strategy.run on it, and is "
                          "given the batch")  # fmt: skip
            return self.plain(*args, **kwargs)
        if dataset_loops.draws_itself(args, kwargs):
            return self._drawing(args, kwargs)
        call = Arguments(args, kwargs)
        if not call.samples and not self.is_asked_for:
            self._give_up("it is given nothing with a batch axis to cut along")
            return self.plain(*args, **kwargs)
        if call.kind in self._trains_nothing:
            return self.plain(*args, **kwargs)
        guarded = self._steps.get(call.kind)
        if guarded is None and len(self._steps) >= _MOST:
            self._give_up("its arguments are Python numbers that change from call to call. Try: pass them as tensors")
            return self.plain(*args, **kwargs)
        try:
            if guarded is None:
                guarded = self._steps[call.kind] = self._guarded(call)
                self._log.begins(guarded.meter)
            begun = time.perf_counter()
            result = guarded(call.data)
            self._log.made_step(stepped=time.perf_counter() - begun)
            return result
        except Unsupported as error:
            if isinstance(error, NoUpdate) and not self.is_asked_for:
                self._trains_nothing.add(call.kind)  # called otherwise, it may train
                return self.plain(*args, **kwargs)
            # First as it is: what could not be traced may be a mistake, and then its own error is what there is to say.
            self._given_up = True
            result = self.plain(*args, **kwargs)
            self._log.left_alone(self.name, str(error))
            return result

    def _guarded(self, call: Arguments) -> GuardedStep:
        step = function_step(self.function, call, self.model)
        found = meter.find(self.options.budget, replicas.devices(call.data))
        remembered = remembered_for("step", found, self.model, self.optimizer, _identity(self.function))
        hint = f"fitroom.step({self.name}, allow=('micro_batch',))"
        tell = functools.partial(self._log.tell, of=self.name)
        guarded = GuardedStep(step, self.options, found, tell, remembered, hint)
        if found is not None and call.samples > 1 and not step.eager and guarded.is_open(call.samples):
            data = as_tensors(call.data)
            most = looking_ahead.bound(step, data, None, compiled=step.jit_compile)
            if most is not None and not looking_ahead.fits_surely(most, found) and not step.obstacles(data):
                guarded.learn()
        return guarded

    def _drawing(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """It draws its batches itself: it runs as it is, or is undone; or Python loops, and each step is guarded."""
        if not graph_seams.is_function(self.function) or tf.config.functions_run_eagerly():
            return self.plain(*args, **kwargs)
        trace = dataset_loops.traced(self.function, args, kwargs)
        if trace is None:
            return self.plain(*args, **kwargs)
        as_it_is = functools.partial(dataset_loops.undone_where_it_fails, trace, self.name)
        found = meter.find(self.options.budget)
        if not dataset_loops.is_distributed(args, kwargs):
            return as_it_is(self.plain, args, kwargs)
        if not self._loops_in_python:
            if found is None or dataset_loops.fits_surely(trace, args, kwargs, found):
                try:
                    return as_it_is(self.plain, args, kwargs)
                except DoesNotFit:  # and nothing of it is left
                    self._log.tell("oom", of=self.name, phase="loop")
            self._loops_in_python = True
            self._log.tell("loop_in_python", of=self.name)
        with dataset_loops.each_run(self._run_of):
            result = as_it_is(function_seams.python_of(self.function), args, kwargs)
        return dataset_loops.as_traced(result, trace)

    def _run_of(self, fn: Any, on_replicas: Callable[..., Any]) -> Any:
        """What stands for `strategy.run(fn, …)`: a guarded step of its own."""
        key, held = function_seams.identity(fn)
        if key not in self._runs:
            if len(self._runs) >= _MOST:  # other values at hand in every turn
                del self._runs[next(iter(self._runs))]
            given = self.model, self.optimizer, self.options
            guarded = GuardedFunction(tf.function(on_replicas), *given, is_asked_for=False, log=self._log)
            self._runs[key] = guarded, held
        return self._runs[key][0]

    def _give_up(self, reason: str) -> None:
        self._given_up = True
        self._log.left_alone(self.name, reason)


def function_step(function: Any, call: Arguments, model: Any = None) -> OwnStep:
    """A function as a step that takes what `call` has."""
    compiled = graph_seams.is_function(function) and not tf.config.functions_run_eagerly()
    python: Any = getattr(function, "python_function", function)
    return _FunctionStep(
        call.function(graph_seams.python_of(function) if compiled else function),
        getattr(python, "__name__", type(python).__name__),
        jit_compile=compiled and graph_seams.is_compiled_by_xla(function),
        eager=not compiled,
        obstacles=lambda: mixing.obstacles(model) if model is not None else [],
        random_layers=lambda: mixing.random_layers(model) if model is not None else [],
    )


def _identity(function: Any) -> str:
    """What tells a function from others of the same name: where it is, and what it does."""
    code = graph_seams.code_of(function_seams.users_own(function))
    if code is None:
        return repr(type(function))
    return f"{code.co_filename}:{code.co_name}:{hashlib.sha256(code.co_code).hexdigest()}"


class _FunctionStep(OwnStep):
    """A function of a batch, and of other tensors that go along whole."""

    def batch(self, data: Any) -> Any:
        return data[0]

    def spread(self, data: Any, count: int, shift: int) -> Any:
        return slicing.spread(data[0], count, shift), data[1]

    def cut(self, data: Any, start: int, stop: int) -> Any:
        return slicing.cut(data[0], start, stop), data[1]

    def relaxed(self, part: Any) -> Any:
        return any_batch(part[0]), part[1]
