"""Where steps/ reaches into Keras and TensorFlow. Tried on Keras 3.15.1 with TensorFlow 2.21.0.

Nobody else in this folder touches a private attribute. `check` says whether the seams are where they were.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.tensorflow import trainer as keras_trainer
from keras.src.losses import loss as keras_loss
from keras.src.optimizers import base_optimizer as keras_optimizer
from keras.src.utils import tracking as keras_tracking
from tensorflow.python.framework import auto_control_deps_utils

from fitroom.steps.replacing import instead, replaced


def check() -> str | None:
    """What is missing in these versions; None where everything is in its place."""
    needed = [
        (keras_loss, "reduce_weighted_values"),
        (keras_trainer, "reduce_per_replica"),
        (keras.Model, "make_train_function"),
        (keras.Model, "_aggregate_additional_loss"),
        (keras.optimizers.Optimizer, "apply"),
        (auto_control_deps_utils, "get_read_write_resource_inputs"),
    ]
    return next((f"{owner.__name__}.{name}" for owner, name in needed if not hasattr(owner, name)), None)


@contextmanager
def every_apply(take_down: Callable[[Any, Any, Any], None]) -> Iterator[None]:
    """Have every optimizer's `apply` call `take_down(optimizer, gradients, variables)` instead."""

    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> None:
        take_down(self, grads, trainable_variables)

    with replaced([(owner, "apply", apply) for owner in _family(keras_optimizer.BaseOptimizer, "apply")]):
        yield


@contextmanager
def every_mean(hold: Callable[[Any, Any, Any], bool]) -> Iterator[None]:
    """Have every `Mean` metric ask `hold(metric, value, weight)` first; where it says True, nothing is added."""
    plain = keras.metrics.Mean.update_state

    def update_state(self: Any, values: Any, sample_weight: Any = None) -> None:
        if not hold(self, values, sample_weight):
            plain(self, values, sample_weight)

    with replaced([(keras.metrics.Mean, "update_state", update_state)]):
        yield


def reduce_logs(model: Any, logs: Any) -> Any:
    """What plain fit makes of the logs of all replicas."""
    return keras_trainer.reduce_per_replica(logs, model.distribute_strategy, reduction="auto")


def concatenated(model: Any, outputs: Any) -> Any:
    """What plain predict makes of the outputs of all replicas."""
    return keras_trainer.reduce_per_replica(outputs, model.distribute_strategy, reduction="concat")


def loss_trackers(model: Any) -> list[Any]:
    """The metrics that follow the loss, and each output's loss: Keras feeds them a whole batch's value."""
    trackers = [model._loss_tracker] if getattr(model, "_loss_tracker", None) is not None else []
    compile_loss = getattr(model, "_compile_loss", None)
    return trackers + (list(compile_loss.metrics) if compile_loss is not None else [])


def count_regularisers(model: Any) -> int:
    """How many of the model's extra losses regularise weights; Keras lists them last."""
    return sum(variable.regularizer is not None for variable in model.trainable_variables)


def _family(kind: type, name: str) -> list[type]:
    """The class and those under it that define `name` themselves."""
    found, todo = [], [kind]
    while todo:
        one = todo.pop()
        todo += one.__subclasses__()
        found += [one] if name in vars(one) else []
    return found


@contextmanager
def weighed_losses(
    model: Any, weigh: Callable[[Any, Any, Any, str | None], Any], weigh_extra: Callable[[Any], Any]
) -> Iterator[None]:
    """While tracing, pass every reduced loss through `weigh` and every extra loss through `weigh_extra`.

    `weigh` is given (reduced loss, sample weights, mask, reduction) for each loss of `compile`, in order.
    """
    plain = keras_loss.reduce_weighted_values
    aggregate = model._aggregate_additional_loss
    compile_loss = model._compile_loss

    def reduce_weighted_values(
        values: Any,
        sample_weight: Any = None,
        mask: Any = None,
        reduction: Any = "sum_over_batch_size",
        dtype: Any = None,
    ) -> Any:
        reduced = plain(values, sample_weight=sample_weight, mask=mask, reduction=reduction, dtype=dtype)
        return weigh(reduced, sample_weight, mask, reduction)

    class Weighed:
        """The compiled loss, with its reductions weighed; everything else is the real one's."""

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            keras_loss.reduce_weighted_values = reduce_weighted_values
            try:
                return compile_loss(*args, **kwargs)
            finally:
                keras_loss.reduce_weighted_values = plain

        def __getattr__(self, name: str) -> Any:
            return getattr(compile_loss, name)

    with (
        instead(model, "_compile_loss", Weighed() if compile_loss is not None else None),
        instead(model, "_aggregate_additional_loss", lambda loss: weigh_extra(aggregate(loss))),
    ):
        yield


def uses_keras_own_step(model: Any, name: str = "train_step") -> bool:
    """Whether a step and what it calls are Keras' own, so that each loss term can be weighed by itself."""
    return all(
        getattr(type(model), one) is getattr(keras.Model, one) for one in (name, "compute_loss", "compute_metrics")
    )


def all_variables(model: Any, *optimizers: Any) -> list[Any]:
    """What a step of a model may write: its variables, its metrics' and its optimizers'."""
    own = [one for one in vars(model).values() if isinstance(one, keras_optimizer.BaseOptimizer)]
    used = {id(one): one for one in (*own, *optimizers) if one is not None}.values()
    slots = [variable for one in used for variable in one.variables]
    return [*model.variables, *model.metrics_variables, *slots, *_untracked(model)]


def _untracked(model: Any) -> list[Any]:
    """TensorFlow's own variables and generators on a model and its layers, which Keras knows nothing of."""
    known = {id(one.value) for one in model.variables}
    found = []
    for layer in dict.fromkeys([model, *model._flatten_layers()]):
        for one in vars(layer).values():
            variable = one.state if isinstance(one, tf.random.Generator) else one
            if isinstance(variable, tf.Variable) and id(variable) not in known:
                found.append(variable)
    return found


def user_metrics(model: Any) -> list[Any]:
    """The metrics given to `compile`."""
    compiled = getattr(model, "_compile_metrics", None)
    return [] if compiled is None else [one for one in keras.tree.flatten(compiled._user_metrics) if one is not None]


def call(model: Any, x: Any, training: bool) -> Any:
    """The model's outputs, as Keras' own steps ask for them."""
    return model(x, training=training) if model._call_has_training_arg else model(x)


def operations(model: Any) -> list[Any]:
    """The nodes of a model's graph, nested models' included; its layers where it has no graph."""
    found = []
    inner = getattr(model, "_functional", None) or model
    for one in getattr(inner, "_operations", None) or getattr(model, "layers", []):
        found += [one, *(operations(one) if isinstance(one, keras.Model) else [])]
    return found


def variable_bytes(model: Any) -> int:
    """What the variables of a model and its optimizer take."""
    return sum(math.prod(one.shape) * tf.as_dtype(one.dtype).size for one in all_variables(model))


def all_layers(model: Any) -> list[Any]:
    """The model's layers, nested ones included."""
    return list(model._flatten_layers())


def output_layers(model: Any) -> list[Any]:
    """The layers whose outputs a model returns; none where it does not tell."""
    if isinstance(model, keras.Sequential):
        last = model.layers[-1:]
        return [*last, *(output_layers(last[0]) if last and _is_model(last[0]) else [])]
    tensors = keras.tree.flatten(getattr(model, "outputs", None) or [])
    found = [tensor._keras_history.operation for tensor in tensors]
    return [one for layer in found for one in ([layer, *output_layers(layer)] if _is_model(layer) else [layer])]


def _is_model(layer: Any) -> bool:
    return isinstance(layer, keras.Model)


def schedule_of(optimizer: Any) -> Any | None:
    """What decides an optimizer's learning rate, where that is no number."""
    rate = optimizer._learning_rate
    return None if isinstance(rate, keras.Variable) else rate


def trained_by(optimizer: Any) -> list[Any]:
    """The variables that an optimizer was built for."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return list(inner._trainable_variables)


def set_optimizer(model: Any, optimizer: Any) -> None:
    """Give a compiled model another optimizer: to train with, and to be saved with."""
    assign = keras_tracking.no_automatic_dependency_tracking(_assign_optimizer)
    assign(model, optimizer)
    config = getattr(model, "_compile_config", None)
    if config is not None:
        config.config["optimizer"] = optimizer


def _assign_optimizer(model: Any, optimizer: Any) -> None:
    model.optimizer = optimizer
