"""Where training/ reaches into `tf.function` and Keras' optimizers. Tried on TensorFlow 2.21.0 and Keras 3.15.1."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any

import keras
import tensorflow as tf
from keras.src.optimizers import base_optimizer, loss_scale_optimizer
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.util import tf_decorator

_MARK = "_fitroom"
_LIBRARIES = tuple(
    f"{Path(file).resolve().parent}/" for file in (tf.__file__, keras.__file__, str(Path(__file__).parent)) if file
)


def mark_of(function: Any) -> Any:
    """What has been decided of a function; None where nothing has."""
    return function.__dict__.get(_MARK)


def mark(function: Any, value: Any) -> None:
    """Keep what has been decided of a function."""
    function.__dict__[_MARK] = value


def python_of(function: Any) -> Any:
    """The Python function that a `tf.function` was made of; a method as one, with its object."""
    _, python = tf_decorator.unwrap(function.python_function)
    owner = getattr(getattr(python, "__self__", None), "weakrefself_target__", None)
    return python if owner is None else MethodType(python.__func__, owner())


def identity(function: Any) -> tuple[Any, list[Any]]:
    """What a trace of a function depends on: its code and what it has at hand, by where that is; and all that itself.

    A function that is made anew in every call is the same to a trace, unless something else is in its cells.
    """
    _, python = tf_decorator.unwrap(getattr(function, "python_function", function))
    cells = [cell.cell_contents if is_full(cell) else None for cell in getattr(python, "__closure__", None) or ()]
    held = [getattr(python, "__self__", None), *cells, *(getattr(python, "__defaults__", None) or ())]
    code = getattr(getattr(python, "__func__", python), "__code__", None)
    return (code or id(python), *map(id, held)), [python, *held]


def is_full(cell: Any) -> bool:
    """Whether there is something in what a function closes over."""
    try:
        return cell.cell_contents is not None
    except ValueError:  # not filled yet
        return False


def batch_size(dataset: Any) -> int | None:
    """How many samples a replica is given at once at most, by how a dataset was made; None where that does not tell."""
    replicas = 1
    if isinstance(dataset, tf.distribute.DistributedDataset):
        replicas = dataset._strategy.num_replicas_in_sync
        dataset = getattr(dataset, "_original_dataset", None)
    while dataset is not None:
        size = getattr(dataset, "_batch_size", None)
        if size is not None:
            known = tf.get_static_value(size)
            return None if known is None else -(-int(known) // replicas)
        dataset = getattr(dataset, "_input_dataset", None)
    return None


def users_own(function: Any) -> Any:
    """What the user wrote of a function: for `strategy.run`, TensorFlow makes another `tf.function` around it."""
    python = getattr(function, "python_function", function)
    if not isinstance(python, FunctionType) or not is_library(python.__code__):
        return python
    held = (cell.cell_contents for cell in python.__closure__ or () if is_full(cell))
    return next((python_of(one) for one in held if isinstance(one, polymorphic_function.Function)), python)


def is_library(code: CodeType) -> bool:
    """Whether code is TensorFlow's, Keras' or our own."""
    return str(Path(code.co_filename).resolve()).startswith(_LIBRARIES)


def intercept_calls(call: Callable[[Any, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]) -> None:
    """Have `call(function, plain, args, kwargs)` answer every call of a `tf.function` that is not inside another."""
    plain = polymorphic_function.Function.__call__

    @functools.wraps(plain)
    def __call__(function: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 # stands in for it
        if not tf.executing_eagerly():
            return plain(function, *args, **kwargs)
        return call(function, functools.partial(plain, function), args, kwargs)

    polymorphic_function.Function.__call__ = __call__


def intercept_apply(before: Callable[[], None]) -> None:
    """Have `before` called whenever an optimizer's `apply` is traced."""

    def intercepted(plain: Any) -> Any:
        @functools.wraps(plain)
        def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not tf.executing_eagerly():
                before()
            return plain(self, *args, **kwargs)

        return apply

    for owner in (base_optimizer.BaseOptimizer, loss_scale_optimizer.LossScaleOptimizer):
        owner.apply = intercepted(owner.apply)
