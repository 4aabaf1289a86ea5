"""What the estimator has to know of Keras beyond its public names. Tried with Keras 3.15."""

from __future__ import annotations

import types
from typing import Any

import keras
from keras.src.trainers.compile_utils import CompileLoss

from fitroom.steps.keras_seams import all_layers

__all__ = [
    "all_layers",
    "attributes",
    "compile_arguments",
    "compiled_with",
    "fresh_loss",
    "made_with",
    "optimizers",
    "set_beside",
    "set_settings",
    "settings",
]


def compile_arguments(model: Any) -> dict[str, Any]:
    """The arguments of Keras' own `compile`; what "auto" has come to here, where there may be a GPU."""
    return {**model._compile_config.config, "jit_compile": bool(model.jit_compile)}


def made_with(model: Any) -> dict[str, Any]:
    """The arguments that a model's class was called with."""
    return dict(model._auto_config.config)


def set_beside(model: Any) -> dict[str, Any]:
    """Optimizers, losses, metrics, functions and numbers that a model of somebody's own class holds as attributes."""
    kinds = (keras.optimizers.Optimizer, keras.losses.Loss, keras.metrics.Metric, types.FunctionType, float, int, str)
    return {
        name: value
        for name, value in vars(model).items()
        if isinstance(value, kinds) and not name.startswith("_") and not hasattr(keras.Model, name)
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


def attributes(one: Any) -> list[Any]:
    """What an object of Keras holds as plain attributes: a layer's activation, a loss's function; no methods."""
    held = {} if isinstance(one, type) else getattr(one, "__dict__", {})
    return [value for name, value in held.items() if not hasattr(type(one), name)]


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
