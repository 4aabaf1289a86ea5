"""Values that can be written down as JSON and arrays, and read back without running anything."""

from __future__ import annotations

from typing import Any

import numpy as np

_DEEPEST = 20


class NotPlain(Exception):
    """The value is of a kind that cannot be written down."""


def encode(value: Any, arrays: list[Any], deep: int = 0) -> Any:
    """The value as JSON; copies of the arrays in it are added to `arrays`.

    Raises:
        NotPlain: if there is something in it that cannot be written down.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if deep > _DEEPEST:  # or in itself
        raise NotPlain(type(value).__name__)
    if type(value) is np.ndarray and value.dtype.kind in "biufc":
        arrays.append(value.copy())
        return {"array": len(arrays) - 1}
    if isinstance(value, (np.bool_, np.integer, np.floating)) and value.dtype.kind in "biuf":
        arrays.append(np.asarray(value))
        return {"number": len(arrays) - 1}
    if type(value) is dict:
        pairs = [[encode(one, arrays, deep + 1) for one in pair] for pair in value.items()]
        return {"dict": pairs}
    for kind in (list, tuple, set):
        if type(value) is kind:
            return {kind.__name__: [encode(one, arrays, deep + 1) for one in value]}
    raise NotPlain(type(value).__name__)


def decode(value: Any, arrays: list[Any]) -> Any:
    """The value that `encode` wrote down."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "array":
        return arrays[content].copy()
    if kind == "number":
        return arrays[content][()]
    if kind == "dict":
        return {decode(key, arrays): decode(one, arrays) for key, one in content}
    made = {"list": list, "tuple": tuple, "set": set}[kind]
    return made(decode(one, arrays) for one in content)
