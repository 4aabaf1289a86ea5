"""The lines of the user's code that add to a variable: found in the source, by the variable's name."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fitroom.leaks.places import Place

_ADDING = {"append", "appendleft", "extend", "insert", "add", "update", "setdefault", "put", "put_nowait", "write"}
_LARGEST = 2_000_000  # characters of a file that is read


ADDS, SETS, EMPTIES = range(3)


class Line(NamedTuple):
    """A line that adds to, or sets, a variable.

    Attributes:
        depth: how many loops and functions it is in: what is at the top of a script runs once.
        rank: whether it adds to the variable, sets it, or sets it to nothing.
        ties: whether what it sets comes back to whom it is set on, as in ``child.parent = self``.
    """

    place: Place
    depth: int
    rank: int
    ties: bool = False


def lines(names: Iterable[str], files: Iterable[str]) -> list[Place]:
    """The lines that add to one of `names` (variables, attributes or keys, the first preferred), likeliest first."""
    known, read = list(names), list(dict.fromkeys(files))
    for rank in (ADDS, SETS, EMPTIES):
        for name in known:
            found = [line for line in _all(name, read) if line.rank == rank]
            if found:
                found.sort(key=lambda line: line.depth == 0)  # stable: the order of the source otherwise
                return list(dict.fromkeys(line.place for line in found))
    return []


def tying(names: Iterable[str], files: Iterable[str]) -> list[Place]:
    """The lines that set one of `names` to something that comes back, likeliest first."""
    read = list(dict.fromkeys(files))
    found = [line for name in names for line in _all(name, read) if line.rank != EMPTIES]
    found.sort(key=lambda line: not line.ties)
    return list(dict.fromkeys(line.place for line in found))


def _all(name: str, files: list[str]) -> list[Line]:
    return [line for file in files for other, line in _in_file(file) if other == name]


@functools.lru_cache(maxsize=64)
def _in_file(file: str) -> tuple[tuple[str, Line], ...]:
    text = "".join(linecache.getlines(file))
    if not text or len(text) > _LARGEST:
        return ()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):  # a notebook's cell with magic in it
        return ()
    return tuple(_walk(tree, file, "", 0))


def _walk(node: ast.AST, file: str, function: str, depth: int) -> Iterator[tuple[str, Line]]:
    for child in ast.iter_child_nodes(node):
        for name, rank, ties in _added_to(child):
            yield name, Line(Place(file, getattr(child, "lineno", 0), function), depth, rank, ties)
        inner, deeper = function, depth
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inner, deeper = getattr(child, "name", "<lambda>"), depth + 1
        elif isinstance(child, ast.For | ast.While | ast.AsyncFor | ast.ListComp | ast.SetComp | ast.DictComp):
            deeper = depth + 1
        yield from _walk(child, file, inner, deeper)


def _added_to(node: ast.AST) -> Iterator[tuple[str, int, bool]]:
    """The names that one statement or call adds to or sets, how, and whether it ties."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ADDING:
        ties = any("self" in _used(argument) for argument in node.args)
        for name in _names(node.func.value):
            yield name, ADDS, ties
    elif isinstance(node, ast.AugAssign):
        for name in _names(node.target):
            yield name, ADDS, False
    elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            for one in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                yield from _assigned(one, node.value)


def _assigned(target: ast.AST, value: ast.AST) -> Iterator[tuple[str, int, bool]]:
    used = _used(value)
    root = target
    while isinstance(root, ast.Subscript | ast.Attribute):
        root = root.value
    ties = "self" in used or (isinstance(root, ast.Name) and root is not target and root.id in used)
    if isinstance(target, ast.Subscript):
        for name in _names(target.value):
            yield name, ADDS, ties
        return
    nothing = isinstance(value, ast.Constant) or (isinstance(value, ast.List | ast.Dict | ast.Tuple) and not used)
    for name in _names(target):  # x = tf.concat([x, y], 0) adds, x = [] does not
        yield name, EMPTIES if nothing else ADDS if name in used else SETS, ties


def _used(value: ast.AST) -> set[str]:
    return {name for part in ast.walk(value) for name in _own_name(part)}


def _names(node: ast.AST) -> Iterator[str]:
    """The names on the way to what is changed: of `self.kept["loss"]` they are loss and kept."""
    while True:
        if isinstance(node, ast.Subscript):
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                yield node.slice.value
            node = node.value
        elif isinstance(node, ast.Attribute):
            yield node.attr
            node = node.value
            if isinstance(node, ast.Name):
                return  # of self.kept only kept: everything else of self would count, too
        elif isinstance(node, ast.Call):  # kept.setdefault(key, []).append(…)
            node = node.func.value if isinstance(node.func, ast.Attribute) else node.func
        else:
            yield from _own_name(node)
            return


def _own_name(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
