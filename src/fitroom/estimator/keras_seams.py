"""What the estimator has to know of Keras beyond its public names. Tried with Keras 3.15."""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf
from keras.src.trainers.compile_utils import CompileLoss
from keras.src.utils import python_utils

from fitroom.steps.keras_seams import all_layers
from fitroom.steps.replacing import replaced

__all__ = [
    "all_layers",
    "all_parts",
    "attributes",
    "bytes_of",
    "compile_arguments",
    "compiled_with",
    "fresh_loss",
    "lambdas",
    "optimizers",
    "own_config",
    "replicas",
    "set_beside",
    "set_settings",
    "settings",
    "slots",
    "takes_arguments",
    "trained",
    "with_lambdas",
]


_MADE_BY_FIT = ("train_function", "test_function", "predict_function")


def bytes_of(variable: Any) -> int:
    """How large a variable is."""
    elements: int = math.prod(variable.shape)
    return elements * int(tf.as_dtype(keras.backend.standardize_dtype(variable.dtype)).size)


def replicas(model: Any) -> tuple[str, ...]:
    """The devices that share a model's batches, by their short names; none where there is one."""
    strategy = model.distribute_strategy
    if strategy.num_replicas_in_sync == 1:
        return ()
    return tuple(name.rpartition("device:")[2] for name in strategy.extended.worker_devices)


def compile_arguments(model: Any) -> dict[str, Any]:
    """The arguments of Keras' own `compile`; what "auto" has come to here, where there may be a GPU."""
    return {**model._compile_config.config, "jit_compile": bool(model.jit_compile)}


def own_config(model: Any) -> dict[str, Any] | None:
    """What a model of somebody's own class says of itself; None where the class says nothing."""
    return None if python_utils.is_default(model.get_config) else dict(model.get_config())


def takes_arguments(model: Any) -> bool:
    """Whether a model's class is called with anything that its name does not tell: Keras does not remember it."""
    usual = {"self", "name", "dtype", "trainable"}
    parameters = inspect.signature(type(model).__init__).parameters.values()
    return any(one.name not in usual and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters)


def set_beside(model: Any) -> dict[str, Any]:
    """Optimizers, losses, metrics, functions and numbers that a model of somebody's own class holds as attributes."""
    kinds = (keras.optimizers.Optimizer, keras.losses.Loss, keras.metrics.Metric, types.FunctionType, float, int, str)
    return {
        name: value
        for name, value in vars(model).items()
        if isinstance(value, kinds) and not name.startswith("_") and not hasattr(keras.Model, name)
        if name not in _MADE_BY_FIT
    }


def compiled_with(model: Any) -> list[Any]:
    """The objects and functions that `compile` was given."""
    return [
        *_leaves(compile_arguments(model)),
        *(one for one in (getattr(model, "optimizer", None),) if one is not None),
        *model.metrics,
    ]


def optimizers(model: Any) -> list[Any]:
    """The optimizers that a model holds, also under names of its own, and those that they wrap."""
    found = [one for one in vars(model).values() if isinstance(one, keras.optimizers.Optimizer)]
    return [*found, *(inner for one in found if (inner := getattr(one, "inner_optimizer", None)) is not None)]


def fresh_loss(model: Any) -> Any:
    """The model's losses as `compile` makes them, in an object of their own."""
    names = getattr(model, "output_names", None)
    weights = compile_arguments(model).get("loss_weights")
    return CompileLoss(loss=model.loss, loss_weights=weights, output_names=names)


def slots(optimizers: list[Any]) -> list[Any]:
    """What optimizers hold, each once: one that wraps another holds the other's, too."""
    return list({id(one): one for optimizer in optimizers for one in optimizer.variables}.values())


def all_parts(model: Any) -> list[Any]:
    """Everything that a model's configuration may mention: itself, layers, what they and `compile` were given."""
    found: dict[int, Any] = {}
    todo = [model, *all_layers(model), *compiled_with(model), *optimizers(model)]
    while todo:
        one = todo.pop()
        if id(one) in found:
            continue
        found[id(one)] = one
        if hasattr(one, "get_config"):
            kinds = (types.FunctionType,)
            todo += [value for value in attributes(one) if hasattr(value, "get_config") or isinstance(value, kinds)]
    return list(found.values())


def lambdas(model: Any) -> dict[str, Any]:
    """The functions of Lambda layers: their configuration leaves out the modules that they use by name."""
    return {one.name: one.function for one in all_layers(model) if isinstance(one, keras.layers.Lambda)}


@contextmanager
def with_lambdas(functions: dict[str, Any]) -> Iterator[None]:
    """Lambda layers that are made from their configuration get these functions, by the layers' names."""
    plain = keras.layers.Lambda.from_config

    def from_config(cls: Any, config: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        layer = plain(config, *args, **kwargs)
        layer.function = functions.get(config["name"], layer.function)
        return layer

    with replaced([(keras.layers.Lambda, "from_config", classmethod(from_config))]):
        yield


def trained(model: Any) -> list[tuple[str, bool]]:
    """The layers' names, and whether each is trained."""
    return [(one.name, bool(one.trainable)) for one in all_layers(model)]


def attributes(one: Any) -> list[Any]:
    """What an object of Keras holds as plain attributes: a layer's activation, a loss's function; no methods."""
    held = {} if isinstance(one, type) else getattr(one, "__dict__", {})
    return [value for name, value in held.items() if not hasattr(type(one), name) and name not in _MADE_BY_FIT]


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for one in value.values() for leaf in _leaves(one)]
    if isinstance(value, list | tuple):
        return [leaf for one in value for leaf in _leaves(one)]
    return [value]


def settings() -> dict[str, Any]:
    """Keras' global settings that shape a model."""
    return {
        "dtype_policy": keras.config.dtype_policy().name,
        "floatx": keras.config.floatx(),
        "image_data_format": keras.config.image_data_format(),
    }


def set_settings(values: dict[str, Any]) -> None:
    """Have the settings of another process."""
    keras.config.set_floatx(values["floatx"])
    keras.config.set_image_data_format(values["image_data_format"])
    keras.config.set_dtype_policy(values["dtype_policy"])
