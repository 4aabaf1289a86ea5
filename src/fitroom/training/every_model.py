"""Every Keras model of a process, guarded when it is first used; models guarded by hand keep their options."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

_METHODS = ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch")


def install(options: Callable[[], Any]) -> None:
    """Guard every model with these options, which are asked for when the first one is used."""
    import keras

    guard = functools.cache(lambda: _Guard(options()))
    for name in _METHODS:
        _wrap(keras.Model, name, functools.partial(_method, guard))
    _wrap(keras.Model, "__call__", functools.partial(_call, guard))


def uninstall() -> None:
    """Leave models that are used from now on alone."""
    import keras

    for name in (*_METHODS, "__call__"):
        plain = getattr(getattr(keras.Model, name), "unguarded", None)
        if plain is not None:
            setattr(keras.Model, name, plain)


class _Guard:
    def __init__(self, options: Any) -> None:
        from fitroom.training import guarding, keras_seams

        self._options = options
        self._guard = guarding.guard_with
        self._seams = keras_seams

    def is_recorded(self) -> bool:
        """Whether a tape records what is computed now, line by line."""
        return bool(self._seams.is_recorded_eagerly())

    def __call__(self, model: Any) -> bool:
        """Guard a model; False where it is guarded, or cannot be."""
        if self._seams.hooked(model) is not None or self._seams.check(model) is not None:
            return False
        self._guard(model, self._options)
        return True

    def calling(self, model: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
        """`plain`, on a guarded model; where it is guarded only now, it says the closing line, too."""
        if not self(model):
            return plain
        spoken: Callable[..., Any] = self._seams.hooked(model).speaking(plain)  # type: ignore[union-attr] # just hooked
        return spoken


def _wrap(owner: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
    plain = getattr(owner, name)
    if hasattr(plain, "unguarded"):
        return
    wrapped: Any = functools.wraps(plain)(wrapper(plain))
    wrapped.unguarded = plain
    setattr(owner, name, wrapped)


def _method(guard: Callable[[], _Guard], plain: Any) -> Any:
    def method(model: Any, *args: Any, **kwargs: Any) -> Any:
        # Not the model's own method: that may be an override, which has called us.
        return guard().calling(model, functools.partial(plain, model))(*args, **kwargs)

    return method


def _call(guard: Callable[[], _Guard], plain: Any) -> Any:
    """A model that is called under a tape, outside of any function."""

    def __call__(model: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 # stands in for it
        if guard().is_recorded():
            guard()(model)
        return plain(model, *args, **kwargs)

    return __call__
