"""What garbage is made of: the objects of the user's in it, and the line that ties them to each other."""

from __future__ import annotations

import gc
from types import FunctionType
from typing import Any

from fitroom.leaks import adding
from fitroom.leaks.facts import Cycle
from fitroom.leaks.places import Place, is_users_class, is_users_code

_MOST = 20_000  # objects that are looked at


def collect(files: tuple[str, ...]) -> Cycle | None:
    """Collect all garbage, and say what the user's part of it was, by their files; None where there was none."""
    flags, there = gc.get_debug(), len(gc.garbage)
    gc.set_debug(gc.DEBUG_SAVEALL)  # it is put aside, not freed
    try:
        gc.collect()
    finally:
        gc.set_debug(flags)
    try:
        return _described(gc.garbage[there : there + _MOST], files)
    except Exception:  # objects that are half taken down may do anything
        return None
    finally:
        del gc.garbage[there:]
        gc.collect()


def _described(garbage: list[Any], files: tuple[str, ...]) -> Cycle | None:
    ids = {id(thing) for thing in garbage}
    ways = {}
    for thing in garbage:
        if not isinstance(thing, type) and is_users_class(type(thing)) and type(thing) not in ways:
            name = _way_back(thing, ids)
            if name is not None:
                ways[type(thing)] = name
    if ways:
        lines = adding.tying(ways.values(), files)
        what = " and ".join(cls.__name__ for cls in list(ways)[:3])
        return Cycle(f"objects of {what}", lines[0] if lines else _class_line(next(iter(ways))), tuple(lines[1:3]))
    for thing in garbage:
        if isinstance(thing, FunctionType) and is_users_code(thing.__code__):
            code = thing.__code__
            return Cycle(f"{code.co_name} and what it uses", Place(code.co_filename, code.co_firstlineno, code.co_name))
    for thing in garbage:
        if isinstance(thing, list | dict):
            lines = [line for name in _names_of(thing) for line in adding.lines((name,), files)]
            if lines:
                return Cycle("containers", lines[0])
    return None


def _way_back(thing: Any, ids: set[int]) -> str | None:
    """The attribute through which an object comes back to itself."""
    values = list(getattr(thing, "__dict__", {}).items())
    for name, value in values:
        if value is thing:
            return str(name)
    for name, value in values:
        if id(value) in ids and _reaches(value, thing, ids, 4):
            return str(name)
    return None


def _reaches(start: Any, goal: Any, ids: set[int], depth: int) -> bool:
    seen, level = {id(start)}, [start]
    for _ in range(depth):
        after = []
        for one in level[:200]:
            for other in gc.get_referents(one):
                if other is goal:
                    return True
                if id(other) in ids and id(other) not in seen:
                    seen.add(id(other))
                    after.append(other)
        level = after
    return False


def _names_of(thing: Any) -> list[str]:
    """Names that a container may have had: the keys under which it holds itself."""
    if isinstance(thing, dict):
        return [
            name for name, value in thing.items() if isinstance(name, str) and _reaches(value, thing, {id(value)}, 1)
        ]
    return []


def _class_line(cls: type) -> Place | None:
    method = next((one for one in vars(cls).values() if isinstance(one, FunctionType)), None)
    if method is None:
        return None
    return Place(method.__code__.co_filename, method.__code__.co_firstlineno, cls.__name__)
