"""Does slicing keep the math? What a model's structure tells."""

from __future__ import annotations

from dataclasses import dataclass
from types import FunctionType
from typing import Any

import keras
from keras import tree

from fitroom.steps import keras_seams


@dataclass(frozen=True)
class Obstacle:
    """A layer for which a slice is not a part of the whole."""

    layer: str
    reason: str
    can_be_allowed: bool = True

    def __str__(self) -> str:
        return f"{self.layer} {self.reason}"


_RANDOM = (
    keras.layers.Dropout,
    keras.layers.SpatialDropout1D,
    keras.layers.SpatialDropout2D,
    keras.layers.SpatialDropout3D,
    keras.layers.AlphaDropout,
    keras.layers.GaussianNoise,
    keras.layers.GaussianDropout,
)


def obstacles(model: Any) -> list[Obstacle]:
    """The layers of `model` that mix samples, or count calls, in training mode."""
    found = []
    for layer in _layers(model):
        name = f"{type(layer).__name__} '{layer.name}'"
        if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable:
            found.append(Obstacle(name, "normalises over the whole batch"))
        elif isinstance(layer, keras.layers.SpectralNormalization):
            found.append(Obstacle(name, "updates its estimate on every call"))
        elif getattr(layer, "stateful", False) and isinstance(layer, keras.layers.RNN):
            found.append(Obstacle(name, "keeps a state per sample of the batch", can_be_allowed=False))
    return found


# Operations of keras.ops in a model's graph that treat each entry by itself.
_BY_ENTRY = frozenset({
    "Add", "Subtract", "Multiply", "Divide", "TrueDivide", "Power", "Negative", "Absolute", "Square", "Sqrt", "Rsqrt",
    "Exp", "Log", "Tanh", "Sigmoid", "Relu", "Gelu", "Silu", "Maximum", "Minimum", "Clip", "Cast", "Equal", "NotEqual",
    "Greater", "GreaterEqual", "Less", "LessEqual", "LogicalAnd", "LogicalOr", "LogicalNot",
})  # fmt: skip


def is_unknown(model: Any) -> bool:
    """Whether something in a model is not Keras' own, or looks along the batch, so that structure tells nothing."""
    if not _is_keras(model) or not all(map(_is_by_entry, keras_seams.operations(model))):
        return True
    losses = [loss for loss in tree.flatten(getattr(model, "loss", None)) if loss is not None]
    parts = [keras.losses.get(loss) if isinstance(loss, str) else loss for loss in losses]
    return not all(map(_is_keras, parts)) or any(map(_is_open, _layers(model)))


def _is_by_entry(operation: Any) -> bool:
    return isinstance(operation, keras.layers.Layer) or (_is_keras(operation) and type(operation).__name__ in _BY_ENTRY)


def has_own_metrics(model: Any) -> bool:
    """Whether `compile` was given metrics that are not Keras' own: whether they add up, structure does not tell."""
    return not all(isinstance(one, str) or _is_keras(one) for one in keras_seams.user_metrics(model))


def _is_open(layer: Any) -> bool:
    """Whether a layer runs somebody's function, or works along an axis that is the batch's."""
    functions = [one for one in vars(layer).values() if isinstance(one, FunctionType)]
    axis = getattr(layer, "axis", None)
    axes = axis if isinstance(axis, (list, tuple)) else [axis]
    is_lambda = isinstance(layer, keras.layers.Lambda)
    return is_lambda or not all(map(_is_keras, [layer, *functions])) or any(one == 0 for one in axes if one is not None)


def _is_keras(one: Any) -> bool:
    home = one.__module__ if isinstance(one, FunctionType) else type(one).__module__
    return str(home).startswith("keras.")


def random_layers(model: Any) -> list[str]:
    """The layers that draw random numbers: sliced, they draw others of the same distribution."""
    return [
        layer.name
        for layer in _layers(model)
        if (isinstance(layer, _RANDOM) and _rate(layer) > 0)
        or getattr(layer, "dropout", 0.0) not in (0, 0.0, None)
        or getattr(layer, "recurrent_dropout", 0.0) not in (0, 0.0, None)
    ]


def _rate(layer: Any) -> float:
    return float(getattr(layer, "rate", 0) or getattr(layer, "stddev", 0) or 0)


def _layers(model: Any) -> list[Any]:
    """All layers, nested ones included."""
    return [layer for layer in keras_seams.all_layers(model) if layer is not model]
