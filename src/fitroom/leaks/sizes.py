"""How many bytes something holds on to: tensors and arrays by their elements, containers by what is in them."""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

_DEEP = 5
_SAMPLED = 12  # elements of a container that stand for the others
_GRANULE = 256  # what the device's allocator rounds up to
AROUND_A_TENSOR = 600  # bytes of the objects around a tensor's own, on the host: Python's, TensorFlow's handle


class Size(NamedTuple):
    """What an object holds, in bytes.

    Attributes:
        tensors: in eager tensors, on the device.
        other: on the host.
        pieces: how many eager tensors.
        models: how many Keras models.
        opaque: how many objects of libraries, which do not tell what they hold: tapes, datasets, optimizers.
    """

    tensors: int = 0
    other: int = 0
    pieces: int = 0
    models: int = 0
    opaque: int = 0

    def plus(self, more: Size, times: float = 1.0) -> Size:
        """Both together, the second some times."""
        return Size(*(int(mine + theirs * times) for mine, theirs in zip(self, more, strict=True)))

    @property
    def total(self) -> int:
        """On whatever device."""
        return self.tensors + self.other


def of(thing: Any, depth: int = _DEEP) -> Size:
    """What `thing` holds on to, roughly; of large containers some elements stand for all."""
    name = type(thing).__name__
    if name == "EagerTensor":
        return Size(_rounded(_elements(thing.shape) * thing.dtype.size), AROUND_A_TENSOR, 1)
    if name == "ndarray":
        base = thing.base  # a view keeps all of what it is a view of
        nbytes = max(int(thing.nbytes), int(getattr(base, "nbytes", 0) or 0) if type(base).__name__ == "ndarray" else 0)
        return Size(0, nbytes + sys.getsizeof(0))
    if isinstance(thing, str | bytes | bytearray | int | float | complex | bool | None.__class__):
        return Size(0, sys.getsizeof(thing))
    if depth == 0:
        return Size(0, sys.getsizeof(thing, 0))
    if isinstance(thing, dict):
        return _several(len(thing), _last(thing.values()), depth).plus(Size(0, sys.getsizeof(thing)))
    if isinstance(thing, list | tuple | set | frozenset | deque):
        return _several(len(thing), _last(thing), depth).plus(Size(0, sys.getsizeof(thing, 0)))
    return _object(thing, depth)


def _object(thing: Any, depth: int) -> Size:
    if _is_model(thing):
        weights = sum(_elements(weight.shape) * 4 for weight in getattr(thing, "weights", ()))
        return Size(weights, 0, 0, 1)
    if isinstance(thing, type) or callable(thing):
        cells = [cell.cell_contents for cell in getattr(thing, "__closure__", None) or () if _is_full(cell)]
        return _several(len(cells), cells, depth - 1)
    inner = getattr(thing, "__dict__", None)
    if isinstance(inner, dict) and type(thing).__module__.split(".")[0] not in ("tensorflow", "keras"):
        return _several(len(inner), _last(inner.values()), depth).plus(Size(0, sys.getsizeof(thing, 0)))
    numpy_like = getattr(thing, "nbytes", None)
    if isinstance(numpy_like, int):
        return Size(0, numpy_like)
    if hasattr(thing, "shape") and hasattr(thing, "dtype"):  # a variable: of Keras', of TensorFlow's
        return Size(_rounded(_elements(thing.shape) * 4), AROUND_A_TENSOR, 1)
    is_library = type(thing).__module__.split(".")[0] in ("tensorflow", "keras")
    return Size(0, sys.getsizeof(thing, 0), 0, 0, int(is_library))


def newest(container: Any, count: int) -> list[Any]:
    """The last `count` elements that came into a container, as far as it keeps their order."""
    values = container.values() if isinstance(container, dict) else container
    return list(_last(values, max(1, min(count, _SAMPLED))))


def _several(count: int, sample: Iterable[Any], depth: int) -> Size:
    found = [of(one, depth - 1) for one in sample]
    total = Size()
    for one in found:
        total = total.plus(one)
    return Size().plus(total, count / len(found)) if found else total


def _last(values: Any, count: int = _SAMPLED) -> Iterator[Any]:
    try:
        return itertools.islice(reversed(values), count)
    except TypeError:  # a set
        return itertools.islice(iter(values), count)


def _is_model(thing: Any) -> bool:
    return any(cls.__name__ == "Model" and cls.__module__.startswith("keras.") for cls in type(thing).__mro__)


def _elements(shape: Any) -> int:
    total = 1
    for one in shape:
        total *= int(one or 0)
    return total


def _rounded(nbytes: int) -> int:
    return max(1, -(-nbytes // _GRANULE)) * _GRANULE


def _is_full(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
