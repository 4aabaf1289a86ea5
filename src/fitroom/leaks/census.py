"""A walk through the heap: how long every container is, how large every array that the user's code has a name for.

It takes about a tenth of a second, so it is taken on suspicion only; and with millions of objects (a text as lists of
numbers) only what is near the user's names is walked through, not into the largest containers. What is compared
between walks are lengths by identity: nothing is kept alive by having been looked at.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections import deque
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

from fitroom.leaks import sizes
from fitroom.leaks.places import is_users_class
from fitroom.leaks.scene import Scene

_CONTAINERS = (list, dict, set, deque)
_LENGTHS = tuple(kind.__len__ for kind in _CONTAINERS)
_LIBRARIES = ("builtins", "collections", "keras", "tensorflow")  # which make containers for the user
_SHORTEST = 3  # elements of a container that is looked at
_MANY = 1_000_000  # objects: too many to walk through all
_STEPS = 7  # from a name, where there are
_NEAR = 150_000  # objects that are near enough
_WIDEST = 10_000  # elements: what is in a container with more is data


class Named(NamedTuple):
    """What a variable holds; `identity` is a container's, 0 for an array or a tensor."""

    size: sizes.Size
    identity: int = 0


class Census(NamedTuple):
    """What was found in one walk.

    Attributes:
        turn: when.
        lengths: of containers, by identity.
        arrays: what arrays, tensors and lists hold, by (whose namespace, name).
        grown: containers that were shorter in the walk before; for at once, not to be kept.
        tensors: how many eager tensors there are.
        objects: how many objects of Python's, of all that its collector knows.
    """

    turn: int
    lengths: dict[int, int]
    arrays: dict[tuple[int, str], Named]
    grown: list[Any]
    tensors: int
    objects: int

    def bare(self) -> Census:
        """Without the containers themselves, which it would keep alive."""
        return self._replace(grown=[])


def take(turn: int, before: Census | None, scene: Scene) -> Census:
    """Walk through the heap."""
    lengths: dict[int, int] = {}
    grown: list[Any] = []
    arrays: dict[tuple[int, str], Named] = {}
    known = before.lengths if before is not None else {}
    tensors = 0
    kinds: dict[type, bool] = {}
    users: dict[type, bool] = {}
    everything = gc.get_objects()
    objects = len(everything)
    if objects > _MANY:
        everything = _near(scene)
    for thing in everything:
        kind = type(thing)
        if kind not in kinds:
            kinds[kind] = _is_container(kind)
        if kinds[kind]:
            length = len(thing)
            if length >= _SHORTEST:
                at = id(thing)
                lengths[at] = length
                if known.get(at, length) < length or (before is not None and at not in known):
                    grown.append(thing)
        elif kind.__name__ == "EagerTensor":
            tensors += 1
        else:
            if kind not in users:
                users[kind] = _is_users(kind)  # type: ignore[arg-type] # a class is hashable
            if users[kind]:
                arrays.update(_arrays(id(thing), getattr(thing, "__dict__", None)))
    for owner, values in scene.namespaces():
        arrays.update(_arrays(owner, values))
    grown = [one for one in grown if one is not lengths and one is not known and one is not everything]
    everything.clear()  # it holds frames, which hold it: as garbage it would be taken for the user's
    return Census(turn, lengths, arrays, grown, tensors, objects)


def _near(scene: Scene) -> list[Any]:
    """What can be reached from the user's names in a few steps."""
    found: list[Any] = []
    level: list[Any] = [values for _, values in scene.namespaces()]
    seen = {id(one) for one in level}
    for _ in range(_STEPS):
        after = []
        for one in level if len(found) + len(level) <= _NEAR else ():
            for other in _inside(one):
                if id(other) not in seen and gc.is_tracked(other):
                    seen.add(id(other))
                    after.append(other)
        found += level
        level = after
    return found


def _inside(thing: Any) -> list[Any]:
    """What something holds, of its own."""
    if isinstance(thing, FunctionType):  # not the names of its module
        return [*(thing.__closure__ or ()), *(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()]
    if isinstance(thing, ModuleType | CodeType | FrameType) or (isinstance(thing, type) and not is_users_class(thing)):
        return []
    is_data = isinstance(thing, _CONTAINERS) and type(thing).__len__ in _LENGTHS and len(thing) > _WIDEST
    return [] if is_data else gc.get_referents(thing)


def _is_container(kind: type) -> bool:
    """Whether it is a container that tells its length at once: Python's, the user's, and what Keras makes of a list."""
    if not issubclass(kind, _CONTAINERS) or kind.__len__ not in _LENGTHS:
        return False
    return str(kind.__module__).split(".")[0] in _LIBRARIES or is_users_class(kind)


@functools.lru_cache(maxsize=1024)
def _is_users(kind: type) -> bool:
    return kind not in (ModuleType, CodeType, FrameType) and is_users_class(kind)


def _arrays(owner: int, values: Any) -> dict[tuple[int, str], Named]:
    """Arrays, tensors and containers by name: a list may be another one each time, as in ``kept = kept + [x]``."""
    found = {}
    for name, value in list(values.items()) if isinstance(values, dict) else ():
        kind = type(value)
        is_array = kind.__name__ in ("EagerTensor", "ndarray") or kind in (bytearray, bytes, str)
        is_container = kind in (list, tuple) and len(value) >= _SHORTEST
        if is_array or is_container:
            with contextlib.suppress(Exception):  # a class of anybody's, with a surprise in it
                size = sizes.of(value)
                if size.total >= 1024:
                    found[owner, str(name)] = Named(size, id(value) if is_container else 0)
    return found
