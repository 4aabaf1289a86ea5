"""``%load_ext fitroom``: models trained in a notebook are guarded, without a change to its cells."""

from __future__ import annotations

import functools
from typing import Any

from fitroom.training import keras_seams
from fitroom.training.guarding import guard

_METHODS = ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch")


def load_ipython_extension(ipython: Any) -> None:
    """Guard every Keras model when it is first trained. Models guarded by hand keep their options."""
    import keras

    for name in _METHODS:
        plain = getattr(keras.Model, name)
        if not hasattr(plain, "unguarded"):
            setattr(keras.Model, name, _guarding(name, plain))


def unload_ipython_extension(ipython: Any) -> None:
    """Leave models that are trained from now on alone."""
    import keras

    for name in _METHODS:
        plain = getattr(getattr(keras.Model, name), "unguarded", None)
        if plain is not None:
            setattr(keras.Model, name, plain)


def _guarding(name: str, plain: Any) -> Any:
    @functools.wraps(plain)
    def method(model: Any, *args: Any, **kwargs: Any) -> Any:
        if keras_seams.hooked(model) is not None or keras_seams.check(model) is not None:
            return plain(model, *args, **kwargs)
        return getattr(guard(model), name)(*args, **kwargs)

    method.unguarded = plain  # type: ignore[attr-defined] # a mark on a function
    return method
