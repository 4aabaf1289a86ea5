"""Where leaks/ reaches into Keras and TensorFlow. Tried on TensorFlow 2.21.0 and Keras 3.15.1.

Hooks are put on classes once and told to whoever watches; a call costs a few microseconds more.
"""

from __future__ import annotations

import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import keras
import tensorflow as tf
from keras.src.optimizers import base_optimizer
from tensorflow.python.data.ops import dataset_ops, iterator_ops
from tensorflow.python.eager.polymorphic_function import polymorphic_function

from fitroom.leaks.asking_seams import leaves_of
from fitroom.leaks.places import is_by_user, is_users_code

_CALLS = ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch")
_is_eager = tf.executing_eagerly  # looked up once: tf is no plain module
_BATCHES = ("on_train_batch_end", "on_test_batch_end", "on_predict_batch_end")


class Watcher(Protocol):
    """Whoever is told what the script does; each is called in the script's thread, at its end.

    Attributes:
        is_on: whether to tell anything.
    """

    is_on: bool

    def tick(self, kind: str) -> None:
        """A step, a batch, an epoch: often, and to be quick."""

    def called(self, kind: str) -> None:
        """A call of one of Keras' methods that train or predict."""

    def made(self, kind: str) -> None:
        """A model, a dataset, a function was made."""

    def traced(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], new: int) -> None:
        """A call of a function made new graphs."""

    def program(self, function: Any) -> None:
        """XLA has something new to compile, for a function or a model."""

    def failed(self, error: Exception, model: Any) -> None:
        """A call raised."""

    def begins(self, model: Any) -> None:
        """A training begins."""

    def lost(self, error: Exception) -> None:
        """Something went wrong in a hook: there is no relying on it any more."""


def _tell(watcher: Watcher, then: Callable[..., None], *args: Any) -> None:
    """Tell a watcher something; whatever goes wrong in that, the script does not get to see it."""
    if watcher.is_on:
        try:
            then(*args)
        except Exception as error:
            watcher.lost(error)


class _Depth(threading.local):
    def __init__(self) -> None:
        self.calls = 0  # of ours, inside each other


_depth = _Depth()


def _inside(plain: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call something of Keras' or TensorFlow's: what that calls in turn is not the user's."""
    _depth.calls += 1
    try:
        return plain(*args, **kwargs)
    finally:
        _depth.calls -= 1


def _is_users() -> bool:
    """Whether it is the user that calls: not from within a call of theirs, or again, as from a callback."""
    return not _depth.calls or (_is_eager() and is_by_user(inspect.currentframe()))


def install(watcher: Watcher) -> None:
    """Have a watcher told of everything that a script does from now on."""
    for name in _BATCHES:
        _after(keras.callbacks.CallbackList, name, watcher, lambda _: watcher.tick("step"))
    _after(keras.callbacks.CallbackList, "on_epoch_end", watcher, lambda _: watcher.tick("epoch"))
    for name in _CALLS:
        _around_call(name, watcher)

    def made(kind: str, is_meant: Callable[[Any], bool]) -> Callable[[Any], None]:
        return lambda thing: watcher.made(kind) if is_meant(thing) else None

    _after(keras.Model, "__init__", watcher, made("model", lambda model: not _is_inner(model)))
    _after(keras.Model, "compile", watcher, made("compiled", lambda _: _is_users()))
    _after(dataset_ops.DatasetV2, "__init__", watcher, made("dataset", lambda _: _is_users()))
    _after(polymorphic_function.Function, "__init__", watcher, made("function", lambda _: not _is_a_stage()))
    _count_generators(watcher)
    _around_function(watcher)
    _outermost(keras.Model, "__call__", "call of the model", watcher)
    _outermost(base_optimizer.BaseOptimizer, "apply", "update", watcher)
    _outermost(iterator_ops.OwnedIterator, "__next__", "batch", watcher)


_hooks: list[tuple[Any, str, Any, Any]] = []  # owner, name, what was there, what is


def _put(owner: Any, name: str, plain: Any, ours: Any) -> None:
    _hooks.append((owner, name, plain, ours))
    setattr(owner, name, ours)


@contextmanager
def unhooked() -> Iterator[None]:
    """Without the hooks for a while, where nobody else has put their own over them."""
    for owner, name, plain, _ in reversed(_hooks):
        setattr(owner, name, plain)
    try:
        yield
    finally:
        for owner, name, _, ours in _hooks:
            setattr(owner, name, ours)


def uninstall() -> None:
    """Take the hooks off again."""
    for owner, name, plain, _ in reversed(_hooks):
        setattr(owner, name, plain)
    _hooks.clear()


def _after(owner: Any, name: str, watcher: Watcher, then: Callable[[Any], None]) -> None:
    plain = getattr(owner, name)

    @functools.wraps(plain)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = plain(self, *args, **kwargs)
        _tell(watcher, then, self)
        return result

    _put(owner, name, plain, method)


def _is_inner(model: Any) -> bool:
    """Whether a model is the one that a Sequential makes of itself."""
    frame = inspect.currentframe()
    for _ in range(12):
        frame = frame.f_back if frame is not None else None
        if frame is None or is_users_code(frame.f_code):
            return False
        if frame.f_code.co_filename.endswith("models/sequential.py") and not isinstance(model, keras.Sequential):
            return True
    return False


def _is_a_stage() -> bool:
    """Whether a function is made inside another call: by Keras, or by tf.data for one of a dataset's stages."""
    frame = inspect.currentframe() if _is_users() else None
    if frame is None:
        return True
    while frame is not None and not is_users_code(frame.f_code):
        if str(frame.f_globals.get("__name__", "")).startswith("tensorflow.python.data."):
            return True
        frame = frame.f_back
    return False


def _outermost(owner: Any, name: str, kind: str, watcher: Watcher) -> None:
    """A method that is a turn of a loop, where it is called line by line and not from within another."""
    plain = getattr(owner, name)

    @functools.wraps(plain)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _depth.calls or not _is_eager():
            return plain(self, *args, **kwargs)
        result = _inside(plain, self, *args, **kwargs)
        _tell(watcher, watcher.tick, kind)
        return result

    _put(owner, name, plain, method)


def _around_call(name: str, watcher: Watcher) -> None:
    plain = getattr(keras.Model, name)
    compiled: weakref.WeakSet[Any] = weakref.WeakSet()

    @functools.wraps(plain)
    def method(model: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_users():
            return plain(model, *args, **kwargs)
        is_outermost = not _depth.calls
        if name == "fit" and is_outermost:
            _tell(watcher, watcher.begins, model)
        if getattr(model, "jit_compile", False) is True and model not in compiled:
            compiled.add(model)
            _tell(watcher, watcher.program, None)
        try:
            result = _inside(plain, model, *args, **kwargs)
        except Exception as error:
            if is_outermost:
                _tell(watcher, watcher.failed, error, model)
            raise
        _tell(watcher, watcher.called, name)
        return result

    _put(keras.Model, name, plain, method)


def _around_function(watcher: Watcher) -> None:
    plain = polymorphic_function.Function.__call__
    shapes: weakref.WeakKeyDictionary[Any, set[Any]] = weakref.WeakKeyDictionary()

    def compiles(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        known = shapes.setdefault(function, set())
        key = str([str(getattr(one, "shape", None)) for one in leaves_of((args, kwargs))])
        if key not in known:
            known.add(key)
            watcher.program(function)

    @functools.wraps(plain)
    def __call__(function: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 # stands in for it
        if not _is_eager():
            return plain(function, *args, **kwargs)
        traces = getattr(function, "_function_cache", ())  # the public count of them takes twice as long
        before = len(traces)
        depth = _depth.calls
        _depth.calls = depth + 1
        try:
            result = plain(function, *args, **kwargs)
        except Exception as error:
            if not depth:
                _tell(watcher, watcher.failed, error, None)
            raise
        finally:
            _depth.calls = depth
        new = len(traces) - before
        if new > 0:
            _tell(watcher, watcher.traced, function, args, kwargs, new)
        if function._jit_compile:
            _tell(watcher, compiles, function, args, kwargs)
        if not depth:
            _tell(watcher, watcher.tick, "call of a function")
        return result

    _put(polymorphic_function.Function, "__call__", plain, __call__)


def _count_generators(watcher: Watcher) -> None:
    """Datasets whose functions are Python's are never given back."""
    plain = dataset_ops.DatasetV2.from_generator

    @functools.wraps(plain)
    def from_generator(*args: Any, **kwargs: Any) -> Any:
        result = _inside(plain, *args, **kwargs)
        _tell(watcher, watcher.made, "generator")
        return result

    _put(dataset_ops.DatasetV2, "from_generator", staticmethod(plain), staticmethod(from_generator))
