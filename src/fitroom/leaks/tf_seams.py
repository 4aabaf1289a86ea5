"""Where leaks/ reaches into Keras and TensorFlow. Tried on TensorFlow 2.21.0 and Keras 3.15.1.

Hooks are put on classes once and told to whoever watches; a call costs a few microseconds more.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import keras
import tensorflow as tf
from keras.src.backend.common import global_state
from keras.src.optimizers import base_optimizer
from tensorflow.python.data.ops import dataset_ops, iterator_ops
from tensorflow.python.eager.polymorphic_function import polymorphic_function

from fitroom.leaks.places import is_users_code

_CALLS = ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch")
_is_eager = tf.executing_eagerly  # looked up once: tf is no plain module
_BATCHES = ("on_train_batch_end", "on_test_batch_end", "on_predict_batch_end")


class Watcher(Protocol):
    """Whoever is told what the script does; each is called in the script's thread, at its end."""

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


def install(watcher: Watcher) -> None:
    """Have a watcher told of everything that a script does from now on."""
    for name in _BATCHES:
        _after(keras.callbacks.CallbackList, name, lambda *_: watcher.tick("step"))
    _after(keras.callbacks.CallbackList, "on_epoch_end", lambda *_: watcher.tick("epoch"))
    for name in _CALLS:
        _around_call(name, watcher)
    _after(keras.Model, "__init__", lambda model: None if _is_inner(model) else watcher.made("model"))
    _after(keras.Model, "compile", lambda *_: None if _depth.calls else watcher.made("compiled"))
    _after(dataset_ops.DatasetV2, "__init__", lambda *_: None if _depth.calls else watcher.made("dataset"))
    _after(polymorphic_function.Function, "__init__", lambda *_: None if _is_a_stage() else watcher.made("function"))
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


def _after(owner: Any, name: str, then: Callable[..., None]) -> None:
    plain = getattr(owner, name)

    @functools.wraps(plain)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = plain(self, *args, **kwargs)
        then(self)
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
    frame = None if _depth.calls else inspect.currentframe()
    while frame is not None and not is_users_code(frame.f_code):
        if str(frame.f_globals.get("__name__", "")).startswith("tensorflow.python.data."):
            return True
        frame = frame.f_back
    return bool(_depth.calls)


def _outermost(owner: Any, name: str, kind: str, watcher: Watcher) -> None:
    """A method that is a turn of a loop, where it is called line by line and not from within another."""
    plain = getattr(owner, name)

    @functools.wraps(plain)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _depth.calls or not _is_eager():
            return plain(self, *args, **kwargs)
        result = _inside(plain, self, *args, **kwargs)
        watcher.tick(kind)
        return result

    _put(owner, name, plain, method)


def _around_call(name: str, watcher: Watcher) -> None:
    plain = getattr(keras.Model, name)
    compiled: weakref.WeakSet[Any] = weakref.WeakSet()

    @functools.wraps(plain)
    def method(model: Any, *args: Any, **kwargs: Any) -> Any:
        if _depth.calls:
            return plain(model, *args, **kwargs)
        if name == "fit":
            watcher.begins(model)
        if getattr(model, "jit_compile", False) is True and model not in compiled:
            compiled.add(model)
            watcher.program(None)
        try:
            result = _inside(plain, model, *args, **kwargs)
        except Exception as error:
            watcher.failed(error, model)
            raise
        watcher.called(name)
        return result

    _put(keras.Model, name, plain, method)


def _around_function(watcher: Watcher) -> None:
    plain = polymorphic_function.Function.__call__
    shapes: weakref.WeakKeyDictionary[Any, set[Any]] = weakref.WeakKeyDictionary()

    @functools.wraps(plain)
    def __call__(function: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 # stands in for it
        if not _is_eager():
            return plain(function, *args, **kwargs)
        before = function.experimental_get_tracing_count()
        depth = _depth.calls
        _depth.calls = depth + 1
        try:
            result = plain(function, *args, **kwargs)
        except Exception as error:
            if not depth:
                watcher.failed(error, None)
            raise
        finally:
            _depth.calls = depth
        new = function.experimental_get_tracing_count() - before
        if new > 0:
            watcher.traced(function, args, kwargs, new)
        if function._jit_compile:
            known = shapes.setdefault(function, set())
            shape = tuple(getattr(one, "shape", None) for one in tf.nest.flatten((args, kwargs)))
            key = str(shape)
            if key not in known:
                known.add(key)
                watcher.program(function)
        if not depth:
            watcher.tick("call of a function")
        return result

    _put(polymorphic_function.Function, "__call__", plain, __call__)


def _count_generators(watcher: Watcher) -> None:
    """Datasets whose functions are Python's are never given back."""
    plain = dataset_ops.DatasetV2.from_generator

    @functools.wraps(plain)
    def from_generator(*args: Any, **kwargs: Any) -> Any:
        result = _inside(plain, *args, **kwargs)
        watcher.made("generator")
        return result

    _put(dataset_ops.DatasetV2, "from_generator", staticmethod(plain), staticmethod(from_generator))


# --- what is asked of them --------------------------------------------------------------------------------------


def describe_arguments(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, str]:
    """The arguments of a call by name, as far as they decide whether a function is traced anew."""
    python = function.python_function
    try:
        bound = inspect.signature(python).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        bound = {str(number): value for number, value in enumerate(args)} | kwargs
    found: dict[str, str] = {}
    for name, value in bound.items():
        leaves = tf.nest.flatten(value)
        if len(leaves) == 1:
            found[name] = _kind(leaves[0])
        else:
            found |= {f"{name}[{number}]": _kind(leaf) for number, leaf in enumerate(leaves[:20])}
    return found


def _kind(value: Any) -> str:
    if isinstance(value, bool | int | float | str | bytes | None.__class__):
        return repr(value)[:40]
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"shape {tuple(value.shape)} of {getattr(value.dtype, 'name', value.dtype)}"
    return f"a {type(value).__name__}, number {_number(value)}"


_numbered: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_numbers: dict[int, int] = {}
_counting = itertools.count(1)


def _number(value: Any) -> int:
    """A number for an object that no other gets: where one is freed, the next may lie at the same address."""
    at = id(value)
    if _numbered.get(at) is not value:
        try:
            _numbered[at] = value
        except TypeError:  # it cannot be told when it is gone
            return at
        _numbers[at] = next(_counting)
    return _numbers[at]


def operations_of(function: Any) -> int:
    """How many operations the last graph of a function has; 0 where that is not told."""
    try:
        newest = function._variable_creation_fn or function._no_variable_creation_fn
        concrete = newest._function_cache.get_functions() if hasattr(newest, "_function_cache") else []
        return len(concrete[-1].graph.get_operations()) if concrete else 0
    except (AttributeError, IndexError, TypeError):
        return 0


def is_compiled(function: Any) -> bool:
    """Whether XLA compiles a function."""
    return bool(function._jit_compile)


def slots_of(model: Any) -> int:
    """The bytes of an optimizer's variables."""
    optimizer = getattr(model, "optimizer", None)
    return sum(_bytes(one) for one in getattr(optimizer, "variables", ()))


def weights_of(model: Any) -> int:
    """The bytes of a model's weights."""
    return sum(_bytes(one) for one in getattr(model, "weights", ()))


def _bytes(variable: Any) -> int:
    size = tf.as_dtype(keras.backend.standardize_dtype(variable.dtype)).size
    total = size
    for one in variable.shape:
        total *= one or 0
    return int(total)


def clear_session() -> bool:
    """Clear Keras' session as far as the script cannot see it: names, seeds, settings stay. False where it cannot."""
    if not tf.executing_eagerly() or _depth.calls > 1:
        return False
    kept = [dict(vars(one)) for one in (global_state.GLOBAL_STATE_TRACKER, global_state.GLOBAL_SETTINGS_TRACKER)]
    keras.utils.clear_session(free_memory=False)
    for now, values in zip(
        (global_state.GLOBAL_STATE_TRACKER, global_state.GLOBAL_SETTINGS_TRACKER), kept, strict=True
    ):
        vars(now).update(values)
    return True
