"""What trainings return that are passed over."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


def history(model: Any, epochs: int) -> Any:
    """What a training that did not happen returns: a History with nothing but numbers that are none."""
    found = keras.callbacks.History()
    found.set_model(model)
    found.history = _Numbers(epochs)
    found.epoch = list(range(epochs))
    model.history = found
    return found


class _Numbers(dict[str, list[float]]):
    """A History's numbers, whatever they are called."""

    def __init__(self, epochs: int) -> None:
        super().__init__(loss=[float("nan")] * epochs)
        self._epochs = epochs

    def __missing__(self, name: str) -> list[float]:
        return [float("nan")] * self._epochs

    def __contains__(self, name: object) -> bool:
        return True

    def get(self, name: str, default: Any = None) -> Any:
        """The numbers of any name."""
        return self[name]


def result(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a step that did not happen returns: zeros."""
    if not hasattr(function, "get_concrete_function"):
        function = tf.function(function)
    outputs = function.get_concrete_function(*args, **kwargs).structured_outputs
    return tf.nest.map_structure(
        lambda one: tf.zeros([size or 1 for size in one.shape], one.dtype) if isinstance(one, tf.Tensor) else one,
        outputs,
    )
