"""What an operation of a traced step takes: bytes for what it makes, work to make it again."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

# The same numbers under another name: nothing is copied.
ALIASES = frozenset(
    ["Identity", "Reshape", "Squeeze", "ExpandDims", "StopGradient", "CheckNumerics", "PreventGradient"]
)
_HIDING = frozenset(
    f"{prefix}{kind}" for prefix in ("", "Stateless", "Stateful") for kind in ("While", "If", "Case", "PartitionedCall")
)
_LOOPS = frozenset(["While", "StatelessWhile"])
_RESIDENT = frozenset(["ReadVariableOp", "VarHandleOp"])  # weights: there anyway
_WORK_PER_ELEMENT = 20.0  # of operations that do little with each number: what they read and write is what costs


def bytes_of(tensor: Any, samples: int = 1, side: int = 1) -> int:
    """What a tensor takes; where its first side is not known, that is the batch, or goes with it; others are `side`."""
    if tensor.dtype in (tf.resource, tf.variant, tf.string):
        return 0
    return int(elements(tensor, samples, side) * tensor.dtype.size)


def elements(tensor: Any, samples: int, side: int = 1) -> float:
    """How many numbers a tensor has."""
    if tensor.shape.rank is None:
        return float(samples)
    first = [samples if size is None else size for size in tensor.shape[:1]]
    return float(math.prod([*first, *(side if size is None else size for size in tensor.shape[1:])]))


def most_per_sample(graph: Any) -> int | None:
    """What one more sample takes at most: as if everything that a graph makes of it were there at once.

    None where that cannot be told: what loops and functions inside it make is not seen from here.
    """
    sizes, unknown = [], 0
    for operation in graph.get_operations():
        if operation.type in _HIDING:
            return None
        for tensor in operation.outputs if operation.type not in ALIASES else ():
            shape = tensor.shape
            if shape.rank is None or None in shape.as_list()[1:]:
                unknown += 1
            elif shape.rank and shape[0] is None:
                sizes.append(bytes_of(tensor))
    return sum(sizes) + unknown * max(sizes) if sizes else None


def most_alive(graph: Any, samples: int, side: int = 1) -> int | None:
    """What is alive at once at most while a graph runs, in the order in which it was written, by its shapes.

    TensorFlow draws operations together and has results overwrite what they were made of, so that less is: this is 30
    to 76 % more than what was measured. Sides that are not known are taken for `side`, the longest
    of the data. None where that cannot be told: what loops keep is not seen from here.
    """
    operations = graph.get_operations()
    home: dict[str, str] = {}  # a tensor's name, and that of the tensor whose memory it uses
    last: dict[str, int] = {}
    for place, operation in enumerate(operations):
        if operation.type in _LOOPS:
            return None
        for tensor in operation.inputs:
            last[home[tensor.name]] = place
        for tensor in operation.outputs:
            is_alias = operation.type in ALIASES and operation.inputs
            home[tensor.name] = home[operation.inputs[0].name] if is_alias else tensor.name
    kept = {home[tensor.name] for tensor in graph.outputs}
    alive = most = 0
    over: dict[int, int] = {}
    for place, operation in enumerate(operations):
        for tensor in operation.outputs:
            if home[tensor.name] == tensor.name and operation.type not in _RESIDENT:
                size = bytes_of(tensor, samples, side)
                alive += size
                if tensor.name not in kept:
                    until = last.get(tensor.name, place)
                    over[until] = over.get(until, 0) + size
        most = max(most, alive)
        alive -= over.pop(place, 0)
    return most


def made_in_all(graph: Any, samples: int) -> int | None:
    """All that a graph makes, as if nothing were ever given back; None where a side of something is not known."""
    found = 0
    for operation in graph.get_operations():
        for tensor in operation.outputs if operation.type not in ALIASES | _RESIDENT else ():
            size = bytes_of(tensor, samples)
            if size and (tensor.shape.rank is None or None in tensor.shape.as_list()[1:]):
                return None
            found += size
    return found


def loops_in(graph: Any) -> int:
    """How many loops a graph has: what they keep is not seen from here."""
    return sum(operation.type in _LOOPS for operation in graph.get_operations())


def work_of(operation: Any, samples: int) -> float:
    """About how many arithmetic operations it takes."""
    if not operation.outputs:
        return 0.0
    made = elements(operation.outputs[0], samples)
    kind = operation.type
    if kind in ("Conv2D", "Conv3D", "DepthwiseConv2dNative", "Conv2DBackpropInput"):
        weights = elements(operation.inputs[1], 1)
        last = operation.inputs[1].shape[-1] or 1
        if kind == "DepthwiseConv2dNative":
            return 2 * made * weights / ((operation.inputs[1].shape[-2] or 1) * last)
        if kind == "Conv2DBackpropInput":
            return 2 * elements(operation.inputs[2], samples) * weights / last
        return 2 * made * weights / last
    if "MatMul" in kind:
        return 2 * made * float(operation.inputs[0].shape[-1] or 1)
    if kind == "Einsum" and len(operation.inputs) > 1:
        # Each side of the product is in two of the three: a matrix product of n by k by m has nk, km and nm numbers.
        first, second = (elements(one, samples) for one in operation.inputs[:2])
        return 2 * math.sqrt(first * second * made)
    return _WORK_PER_ELEMENT * made
