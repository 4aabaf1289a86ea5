"""What leaks/ asks of Keras and TensorFlow. Tried on TensorFlow 2.21.0 and Keras 3.15.1."""

from __future__ import annotations

import inspect
import itertools
import weakref
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.eager import context


def describe_arguments(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, str]:
    """The arguments of a call by name, as far as they decide whether a function is traced anew."""
    python = function.python_function
    try:
        bound = inspect.signature(python).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        bound = {str(number): value for number, value in enumerate(args)} | kwargs
    found: dict[str, str] = {}
    for name, value in bound.items():
        leaves = leaves_of(value)
        if len(leaves) == 1:
            found[name] = _kind(leaves[0])
        else:
            found |= {f"{name}[{number}]": _kind(leaf) for number, leaf in enumerate(leaves[:20])}
    return found


def leaves_of(value: Any) -> list[Any]:
    """What an argument is made of; itself where TensorFlow cannot tell, as with keys that cannot be sorted."""
    try:
        return list(tf.nest.flatten(value))
    except (TypeError, ValueError):
        return [value]


def _kind(value: Any) -> str:
    if isinstance(value, int) and abs(value) >> 128:  # Python refuses to write out very long ones
        return f"an int of {value.bit_length()} bits"
    if isinstance(value, bool | int | float | str | bytes | None.__class__):
        return repr(value)[:40]
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"shape {value.shape} of {getattr(value.dtype, 'name', value.dtype)}"
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
    """Clear of Keras' session what the script cannot see: kernels that models left behind. False where it cannot.

    Not by Keras' own clear_session: that resets the default graph, in which a strategy's scope is kept, and the names,
    seeds and settings of all threads.
    """
    if not tf.executing_eagerly():
        return False
    context.context().clear_kernel_cache()
    return True
