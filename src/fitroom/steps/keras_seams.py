"""Where steps/ reaches into Keras and TensorFlow. Tried on Keras 3.15.1 with TensorFlow 2.21.0.

Nobody else in this folder touches a private attribute. `check` says whether the seams are where they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.tensorflow import trainer as keras_trainer
from keras.src.losses import loss as keras_loss
from tensorflow.python.framework import auto_control_deps_utils


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
def instead(owner: Any, name: str, replacement: Any) -> Iterator[None]:
    """Have `owner.name` be `replacement` for a while, past Keras' attribute tracking."""
    absent = object()
    before = owner.__dict__.get(name, absent)
    owner.__dict__[name] = replacement
    try:
        yield
    finally:
        if before is absent:
            del owner.__dict__[name]
        else:
            owner.__dict__[name] = before


def reduce_logs(model: Any, logs: Any) -> Any:
    """What plain fit makes of the logs of all replicas."""
    return keras_trainer.reduce_per_replica(logs, model.distribute_strategy, reduction="auto")


def loss_trackers(model: Any) -> list[Any]:
    """The metrics that follow the loss, and each output's loss: Keras feeds them a whole batch's value."""
    trackers = [model._loss_tracker] if getattr(model, "_loss_tracker", None) is not None else []
    compile_loss = getattr(model, "_compile_loss", None)
    return trackers + (list(compile_loss.metrics) if compile_loss is not None else [])


def count_regularisers(model: Any) -> int:
    """How many of the model's extra losses regularise weights; Keras lists them last."""
    return sum(variable.regularizer is not None for variable in model.trainable_variables)


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


def uses_keras_own_step(model: Any) -> bool:
    """Whether `train_step` and `compute_loss` are Keras' own, so that each loss term can be weighed by itself."""
    return all(
        getattr(type(model), name) is getattr(keras.Model, name)
        for name in ("train_step", "compute_loss", "compute_metrics")
    )


def all_layers(model: Any) -> list[Any]:
    """The model's layers, nested ones included."""
    return list(model._flatten_layers())


def written_variables(function: Any) -> list[Any]:
    """The variables that a concrete function may write, nested functions included."""
    by_handle = {id(variable.handle): variable for variable in function.graph.variables}
    outer = {id(inner): external for external, inner in function.graph.captures}
    written = {}
    for operation in function.graph.get_operations():
        for tensor in auto_control_deps_utils.get_read_write_resource_inputs(operation)[1]:
            handle = outer.get(id(tensor))
            if handle is not None and id(handle) in by_handle:
                written[id(handle)] = by_handle[id(handle)]
    return list(written.values())


# Random operations that keep their state inside the kernel, where nobody can put it back.
_HIDDEN_STATE = {"RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt", "Multinomial",
                 "RandomShuffle", "RandomGammaV2", "RandomPoissonV2", "ParameterizedTruncatedNormal"}  # fmt: skip


def hidden_random_operations(function: Any) -> list[str]:
    """The names of random operations in a concrete function whose state cannot be put back."""
    graphs = [function.graph, *(f.graph for f in function.graph._functions.values() if hasattr(f, "graph"))]
    return [op.name for graph in graphs for op in graph.get_operations() if op.type in _HIDDEN_STATE]


def call_flat(function: Any, tensors: list[Any]) -> Any:
    """Call a concrete function with its tensors in order: a third of the time of calling it by its signature."""
    return function.inference_fn.call_preflattened(tensors + function.captured_inputs)


def flat_tensors(values: Any) -> list[Any]:
    """The tensors in nested values, in the order in which a concrete function takes them."""
    leaves = tf.nest.flatten(values, expand_composites=True)
    return [leaf for leaf in leaves if isinstance(leaf, tf.Tensor)]
