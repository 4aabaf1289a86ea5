"""Values of which every replica has its own: taken apart, and put together again.

Under `MirroredStrategy` a batch comes in shares, one per replica, and so does all that is made of it. Anywhere else a
value is a single part, and everything here gives it back as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import tensorflow as tf

from fitroom.steps import graph_seams


def count(*nests: Any) -> int:
    """How many replicas these nests have values for; 1 where nothing in them is of a replica."""
    leaves = (leaf for nest in nests for leaf in tf.nest.flatten(nest) if _is_several(leaf))
    return max((len(leaf.values) for leaf in leaves), default=1)


def parts(data: Any, replicas: int | None = None) -> list[Any]:
    """Each replica's part of a nest; what is not of a replica goes to all of them."""
    number = count(data) if replicas is None else replicas
    return [data] if number == 1 else [_part(data, index) for index in range(number)]


def shares(leaves: list[Any]) -> list[list[Any]]:
    """The same for what is no nest but a list, in a fraction of the time."""
    number = max((len(leaf.values) for leaf in leaves if _is_several(leaf)), default=1)
    if number == 1:
        return [leaves]
    return [[leaf.values[index] if _is_several(leaf) else leaf for leaf in leaves] for index in range(number)]


def together(found: list[Any]) -> Any:
    """A nest with a value per replica, from each replica's."""
    if len(found) == 1:
        return found[0]
    return tf.nest.map_structure(lambda *leaves: None if leaves[0] is None else graph_seams.per_replica(leaves), *found)


def each(function: Callable[..., Any], *nests: Any) -> Any:
    """What a function makes of each replica's part, where that part is."""
    number = count(*nests)
    if number == 1:
        return function(*nests)
    found = []
    for own in zip(*(parts(nest, number) for nest in nests), strict=True):
        with device_of(own):
            found.append(function(*own))
    return together(found)


def devices(data: Any) -> tuple[str, ...]:
    """Where each replica's part is; nothing where there is one."""
    shares = parts(data) if count(data) > 1 else []
    firsts = (next((leaf for leaf in tf.nest.flatten(share) if isinstance(leaf, tf.Tensor)), None) for share in shares)
    return tuple(leaf.device for leaf in firsts if leaf is not None)


def unwrapped(leaf: Any) -> Any:
    """A value of which the only replica has its own, as it is anywhere else; others as they are."""
    return leaf.values[0] if _is_several(leaf) and len(leaf.values) == 1 else leaf


def here() -> int:
    """The replica that is being run or traced; 0 outside of any."""
    context = tf.distribute.get_replica_context()
    number = 0 if context is None else context.replica_id_in_sync_group
    return number if isinstance(number, int) else int(tf.get_static_value(number))


def _is_several(leaf: Any) -> bool:
    return isinstance(leaf, tf.distribute.DistributedValues) and hasattr(leaf, "values")


def _part(data: Any, index: int) -> Any:
    return tf.nest.map_structure(lambda leaf: leaf.values[index] if _is_several(leaf) else leaf, data)


def device_of(data: Any) -> AbstractContextManager[Any]:
    """Have what follows be where these tensors are: TensorFlow would bring another device's to the first one."""
    leaves = tf.nest.flatten(data, expand_composites=True)
    device = next((leaf.device for leaf in leaves if isinstance(leaf, tf.Tensor)), None)
    return tf.device(device) if device else nullcontext()
