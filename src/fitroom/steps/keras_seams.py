"""Where steps/ reaches into Keras and TensorFlow. Tried on Keras 3.15.1 with TensorFlow 2.21.0.

Nobody else in this folder touches a private attribute. `check` says whether the seams are where they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.tensorflow import random as keras_random
from keras.src.backend.tensorflow import trainer as keras_trainer
from keras.src.losses import loss as keras_loss
from keras.src.optimizers import base_optimizer as keras_optimizer
from tensorflow.python.eager.polymorphic_function import polymorphic_function
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


@contextmanager
def every_apply(take_down: Callable[[Any, Any, Any], None]) -> Iterator[None]:
    """Have every optimizer's `apply` call `take_down(optimizer, gradients, variables)` instead."""

    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> None:
        take_down(self, grads, trainable_variables)

    with _replaced([(owner, "apply", apply) for owner in _family(keras_optimizer.BaseOptimizer, "apply")]):
        yield


@contextmanager
def every_mean(hold: Callable[[Any, Any, Any], bool]) -> Iterator[None]:
    """Have every `Mean` metric ask `hold(metric, value, weight)` first; where it says True, nothing is added."""
    plain = keras.metrics.Mean.update_state

    def update_state(self: Any, values: Any, sample_weight: Any = None) -> None:
        if not hold(self, values, sample_weight):
            plain(self, values, sample_weight)

    with _replaced([(keras.metrics.Mean, "update_state", update_state)]):
        yield


def _family(kind: type, name: str) -> list[type]:
    """The class and those under it that define `name` themselves."""
    found, todo = [], [kind]
    while todo:
        one = todo.pop()
        todo += one.__subclasses__()
        found += [one] if name in vars(one) else []
    return found


@contextmanager
def _replaced(replacements: list[tuple[Any, str, Any]]) -> Iterator[None]:
    before = [(owner, name, vars(owner)[name]) for owner, name, _ in replacements]
    for owner, name, value in replacements:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


@contextmanager
def fixed_randomness() -> Iterator[None]:
    """Have every sample draw the same numbers, dropout drop nothing, and a shuffle reverse, while tracing."""

    def rows(shape: Any, dtype: Any, low: float = -1.0, high: float = 1.0) -> Any:
        """The same row for every sample: values between low and high that depend on the place in the row only."""
        shape = tf.cast(tf.convert_to_tensor(shape), tf.int32)
        dtype = tf.as_dtype(dtype or "float32")
        if shape.shape[0] == 0:
            return tf.cast((low + high) / 2 + (high - low) * 0.1, dtype)
        count = tf.reduce_prod(shape[1:])
        row = tf.sin(tf.cast(tf.range(count), tf.float32) * 1.7 + 0.3)
        row = low + (high - low) * (row + 1) / 2
        return tf.broadcast_to(tf.reshape(tf.cast(row, dtype), tf.concat([[1], shape[1:]], 0)), shape)

    def normal(shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: Any = None, **_: Any) -> Any:
        values = rows(shape, dtype)
        return values * tf.cast(stddev, values.dtype) + tf.cast(mean, values.dtype)

    def uniform(shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = None, seed: Any = None, **_: Any) -> Any:
        return rows(shape, dtype, float(minval), 1.0 if maxval is None else float(maxval))

    def randint(shape: Any, minval: Any, maxval: Any, dtype: Any = "int32", seed: Any = None) -> Any:
        return rows(shape, dtype, float(minval), float(maxval))

    def dropout(inputs: Any, *_: Any, **__: Any) -> Any:
        return inputs

    def shuffle(x: Any, *_: Any, **__: Any) -> Any:
        return tf.reverse(x, [0])

    def of_generator(self: Any, *args: Any, **kwargs: Any) -> Any:
        return normal(*args, **kwargs)

    def uniform_of_generator(self: Any, *args: Any, **kwargs: Any) -> Any:
        return uniform(*args, **kwargs)

    with _replaced([
        (keras_random, "normal", normal), (keras_random, "truncated_normal", normal),
        (keras_random, "uniform", uniform), (keras_random, "randint", randint), (keras_random, "dropout", dropout),
        (keras_random, "shuffle", shuffle),
        (tf.random, "normal", normal), (tf.random, "truncated_normal", normal), (tf.random, "uniform", uniform),
        (tf.random, "shuffle", shuffle), (tf.random, "stateless_normal", normal),
        (tf.random, "stateless_uniform", uniform), (tf.nn, "dropout", dropout),
        (tf.random.Generator, "normal", of_generator), (tf.random.Generator, "truncated_normal", of_generator),
        (tf.random.Generator, "uniform", uniform_of_generator),
    ]):  # fmt: skip
        yield


def reads(graph: Any, variables: list[Any], after: int) -> bool:
    """Whether any operation of a graph from place `after` on takes one of these variables."""
    handles = {id(variable.handle) for variable in variables}
    inner = {id(placeholder) for external, placeholder in graph.captures if id(external) in handles}
    return any(id(tensor) in inner for operation in graph.get_operations()[after:] for tensor in operation.inputs)


def is_function(value: Any) -> bool:
    """Whether this is a `tf.function`."""
    return isinstance(value, polymorphic_function.Function)


def python_of(function: Any) -> Any:
    """What a `tf.function` was made of, its control flow converted as it would be; anything else as it is.

    A function that has been traced keeps what it traced: to take it apart, its Python has to be traced anew.
    """
    if not is_function(function):
        return function
    python = function.python_function
    if not function._autograph:
        return python
    try:
        return tf.autograph.to_graph(python)
    except (ValueError, TypeError, NotImplementedError):  # no source to convert: a lambda, a builtin
        return python


def is_compiled_by_xla(function: Any) -> bool:
    """Whether a `tf.function` was made with jit_compile."""
    return bool(function._jit_compile)


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
    return [*model.variables, *model.metrics_variables, *(variable for one in used for variable in one.variables)]


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


def written_from_data(function: Any) -> set[int]:
    """The ids of the variables to which a concrete function writes something that its arguments have a part in."""
    by_handle = {id(variable.handle): variable for variable in function.graph.variables}
    outer = {id(inner): external for external, inner in function.graph.captures}
    tainted = {id(one) for one in function.graph.inputs if id(one) not in outer}
    found: set[int] = set()
    for operation in function.graph.get_operations():  # in the order in which they were made: inputs come first
        if not any(id(tensor) in tainted for tensor in operation.inputs):
            continue
        tainted.update(id(tensor) for tensor in operation.outputs)
        for handle in auto_control_deps_utils.get_read_write_resource_inputs(operation)[1]:
            tainted.add(id(handle))  # what is read from it from here on comes from the data, too
            variable = by_handle.get(id(outer.get(id(handle))))
            found |= {id(variable)} if variable is not None else set()
    return found


def is_seed(variable: Any) -> bool:
    """Whether a variable is the state of a random generator, Keras' or TensorFlow's."""
    return (
        variable.dtype == tf.uint32
        or "seed" in variable.name
        or (variable.dtype == tf.int64 and variable.shape.rank == 1)
    )


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
