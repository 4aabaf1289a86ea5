"""What steps by hand take: functions with a tape, functions over a dataset, loops under a tape."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from fitroom.core import Plan
from fitroom.errors import UsageError
from fitroom.estimator.by_hand import StepMeasurement, Trained
from fitroom.estimator.estimates import Estimate
from fitroom.estimator.estimating import estimate_step
from fitroom.steps.compiled import Compiled
from fitroom.steps.own_step import OwnStep
from fitroom.steps.sites import Unsupported
from fitroom.training.arguments import Arguments
from fitroom.training.functions import function_step

_DATASETS = (tf.data.Dataset, tf.distribute.DistributedDataset)


def of_function(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], batch: int | None, plan: Plan
) -> Estimate:
    """What a call of a step takes, at this batch size or at its own.

    Raises:
        UsageError: if it is given no batch, or cannot be taken apart.
    """
    call = Arguments(args, kwargs)
    if call.samples:
        return _measured(function_step(function, call), call, batch, plan)
    data = [one for one in (*args, *kwargs.values()) if isinstance(one, _DATASETS)]
    first = next(iter(data[0]), None) if len(data) == 1 else None
    if first is None:
        raise UsageError(
            "The step is given nothing with a batch axis",
            received=", ".join(type(one).__name__ for one in (*args, *kwargs.values())) or "no arguments",
            expected="a batch of arrays or tensors, or a dataset",
        )
    step = _OverOneBatch(function, args, kwargs, first)
    arrays = tf.nest.flatten(first)
    size = batch or int(arrays[0].shape[0])
    return estimate_step(StepMeasurement(step, step.trained, arrays, (), size), size, plan)


def of_loop(model: Any, optimizer: Any, call: Arguments, batch: int | None, plan: Plan) -> Estimate:
    """What a model's call under a tape takes, with its gradients and the update."""

    def step(*args: Any, **kwargs: Any) -> Any:
        with tf.GradientTape() as tape:
            given = tf.nest.flatten(model(*args, **kwargs))
            loss = tf.add_n([tf.reduce_mean(tf.cast(one, tf.float32)) for one in given])
        weights = model.trainable_variables
        optimizer.apply(tape.gradient(loss, weights), weights)

    found = _measured(function_step(step, call), call, batch, plan)
    return found.with_note("Of the model's call, its gradients and the update; the script's loss is not in it.")


def _measured(step: OwnStep, call: Arguments, batch: int | None, plan: Plan) -> Estimate:
    size = batch or call.samples
    arrays, others = call.data
    try:
        small = StepMeasurement(step, lambda: _trained(step), arrays, others, size, compiled=step.jit_compile)
        return estimate_step(small, size, plan)
    except Unsupported as error:
        raise UsageError("The step cannot be estimated", received=str(error)) from error


def _trained(step: OwnStep) -> Trained:
    optimizers = {id(site.optimizer): site.optimizer for site in step.sites}
    variables = {id(one): one for site in step.sites for one in site.variables}
    return Trained(list(optimizers.values()), list(variables.values()), step.written.small.variables)


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
