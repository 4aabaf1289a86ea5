"""Lines that keep a container from growing for ever: they remove from it, cut it, or begin it anew.

An LRU, a replay buffer, a window, a queue grows like a leak until it is full, which may be after the run. How it is
kept small is written in many ways (``if len(self) >= self.capacity: self.items.pop(0)``), so any removal counts that
happens again and again as the container is added to: in a loop with that, in a function that is called for it, or
under a condition. What is done once, as ``kept = []`` before a loop or ``kept.clear()`` after it, does not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from fitroom.leaks.expressions import names, used

_REMOVING = {"pop", "popleft", "popitem", "clear", "remove", "discard", "get_nowait"}
_REMOVING_FROM_FIRST = {"heappop", "heappushpop", "heapreplace"}
_ADDING = {"append", "appendleft", "extend", "insert", "add", "update", "setdefault", "put", "put_nowait"}
_LOOPS = (ast.For, ast.While, ast.AsyncFor)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_ONCE = ("on_train_begin", "on_train_end")  # of a callback's methods, which Keras calls; the others often


class _Around(NamedTuple):
    """What a node is in.

    Attributes:
        function: the function, or the module.
        own: the names that are the function's own, which are gone when it ends.
        loops: of the function, outermost first.
        test: the nearest condition of the function.
    """

    function: ast.AST
    own: frozenset[str]
    loops: tuple[ast.AST, ...] = ()
    test: ast.AST | None = None


def removals(tree: ast.AST) -> dict[ast.AST, ast.AST]:
    """The nodes that keep something small, and what they keep so."""
    found = {}
    for node, around in _walk(tree, _Around(tree, frozenset())):
        for target, is_begun_anew in _shortened(node):
            name = next(names(target), "")
            if name and _counts(target, name, around, is_begun_anew):
                found[node] = target
    return found


def _walk(node: ast.AST, around: _Around) -> Iterator[tuple[ast.AST, _Around]]:
    for child in ast.iter_child_nodes(node):
        yield child, around
        inner = around
        if isinstance(child, _FUNCTIONS):
            inner = _Around(child, _own(child))
        elif isinstance(child, _LOOPS):
            test = child if isinstance(child, ast.While) else around.test
            inner = _Around(around.function, around.own, (*around.loops, child), test)
        elif isinstance(child, ast.If | ast.IfExp):
            inner = _Around(around.function, around.own, around.loops, child)
        yield from _walk(child, inner)


def _own(function: ast.AST) -> frozenset[str]:
    stored = {one.id for one in ast.walk(function) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    others = {name for one in ast.walk(function) if isinstance(one, ast.Global | ast.Nonlocal) for name in one.names}
    return frozenset(stored - others)


def _counts(target: ast.AST, name: str, around: _Around, is_begun_anew: bool) -> bool:
    is_module = isinstance(around.function, ast.Module)
    if is_begun_anew and (around.test is None or _begins(around.test, name)):
        return _is_told_by_keras(around)
    if is_module or (isinstance(target, ast.Name) and target.id in around.own):  # else it is run once
        return any(name in _added(loop) for loop in around.loops)
    return around.test is not None or name in _added(around.function) or _is_told_by_keras(around)


def _begins(test: ast.AST, name: str) -> bool:
    """Whether a condition holds for the first time only, or for all there is: what is set there is not set again."""
    asked = test.test if isinstance(test, ast.If | ast.While | ast.IfExp) else test
    known = used(asked)
    is_missing = any(
        isinstance(one, ast.Is | ast.IsNot | ast.In | ast.NotIn | ast.Not) for one in ast.walk(asked)
    ) or bool(known & {"hasattr", "__name__"})
    return is_missing or name in _added(test)


def _is_told_by_keras(around: _Around) -> bool:
    called = getattr(around.function, "name", "")
    return called.startswith("on_") and called not in _ONCE


def _shortened(node: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """What a node removes from or cuts; and whether it begins it anew."""
    if isinstance(node, ast.Call):
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        is_queues = called == "get" and not node.args  # a dictionary's has a key
        if isinstance(node.func, ast.Attribute) and (called in _REMOVING or is_queues):
            yield node.func.value, False
        elif called in _REMOVING_FROM_FIRST and node.args:
            yield node.args[0], False
    elif isinstance(node, ast.Delete):
        yield from ((one.value, False) for one in node.targets if isinstance(one, ast.Subscript))
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            name = next(names(target), "")
            whole = isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice)  # kept[:] = …
            if isinstance(target, ast.Subscript) and not whole:
                continue
            if name and name in used(node.value) and any(_is_cut(one, name) for one in ast.walk(node.value)):
                yield target, False
            elif _is_empty(node.value):
                yield target, not whole


def _is_cut(node: ast.AST, name: str) -> bool:
    """Whether it is a part of what has that name: a slice, or those of it that a condition lets through."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Slice) and name in used(node.value)
    is_filter = isinstance(node, ast.ListComp | ast.DictComp | ast.SetComp)
    return is_filter and any(one.ifs and name in used(one.iter) for one in node.generators)  # type: ignore[attr-defined]


def _is_empty(value: ast.AST) -> bool:
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and not value.args and value.func.id in ("list", "dict", "set", "deque")
    return isinstance(value, ast.List | ast.Dict) and not used(value) and not list(ast.iter_child_nodes(value))[1:]


def _added(around: ast.AST) -> set[str]:
    """The names of what is added to inside of something."""
    found = set()
    for node in ast.walk(around):
        if isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if isinstance(node.func, ast.Attribute) and called in _ADDING:
                found.add(next(names(node.func.value), ""))
            elif called == "heappush" and node.args:
                found.add(next(names(node.args[0]), ""))
        elif isinstance(node, ast.AugAssign):
            found.add(next(names(node.target), ""))
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                name = next(names(target.value if isinstance(target, ast.Subscript) else target), "")
                if isinstance(target, ast.Subscript) or name in used(node.value):
                    found.add(name)
    return found
