"""Where training/ reaches into Keras. Tried on Keras 3.15.1 with TensorFlow 2.21.0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fitroom.steps.keras_seams import check as check_steps

__all__ = ["check", "element_spec", "hook", "hooked", "next_batch", "plain_function", "unhook"]

_MARK = "_fitroom"


def check(model: Any) -> str | None:
    """Why this model cannot be guarded here; None where it can."""
    import keras

    if keras.config.backend() != "tensorflow":
        return f"the Keras backend is {keras.config.backend()}"
    if not isinstance(model, keras.Model):
        return f"{type(model).__name__} is not a Keras 3 model"
    missing = check_steps()
    if missing:
        return f"Keras {keras.__version__} no longer has {missing}"
    return None


def hook(model: Any, guard: Any, **methods: Callable[..., Any]) -> None:
    """Put `methods` on the model itself, past Keras' tracking: nothing of it is saved, cloned or pickled."""
    model.__dict__[_MARK] = guard
    model.__dict__.update(methods)
    model.__dict__["train_function"] = None


def unhook(model: Any, names: tuple[str, ...]) -> None:
    """Take them off again."""
    for name in (_MARK, *names):
        model.__dict__.pop(name, None)
    model.__dict__["train_function"] = None


def hooked(model: Any) -> Any | None:
    """The guard that is on the model."""
    return model.__dict__.get(_MARK)


def plain_function(model: Any) -> Callable[[Any], Any]:
    """The training function that plain Keras would make."""
    function: Callable[[Any], Any] = model._make_function(model.train_step)
    return function


def element_spec(iterator: Any) -> Any:
    """What the iterator's batches are like, as plain Keras would trace for them; None where it does not tell."""
    return getattr(iterator, "element_spec", None)


def next_batch(iterator: Any) -> Any:
    """The next batch, with absent parts as None; `StopIteration` at the end of the data."""
    import tensorflow as tf

    data = next(iterator)
    return tf.nest.map_structure(lambda leaf: None if isinstance(leaf, tf.experimental.Optional) else leaf, data)
