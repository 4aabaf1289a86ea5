"""Containers that are added to only while they are short: ``if len(kept) < 100: kept.append(x)``.

Such a one grows like a leak until it is full, which may be after the run. Which way the comparison goes counts:
``if len(memory) < 32: return`` waits for enough, and bounds nothing. What is removed from is in removing.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitroom.leaks.expressions import names

_ADDING = {"append", "appendleft", "extend", "insert", "add", "update", "setdefault"}
_MORE, _LESS = (ast.Gt, ast.GtE), (ast.Lt, ast.LtE)


def written(tree: ast.AST) -> frozenset[str]:
    """The names, each the nearest, of the containers of a file that are kept below a bound."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.If):  # a loop that goes on until there is enough is no bound
            continue
        for name, is_long in _measured(node.test):
            long, short = (node.body, node.orelse) if is_long else (node.orelse, node.body)
            if name in _added_to(short) or _leaves(long):
                found.add(name)
        for one, other in ((node.body, node.orelse), (node.orelse, node.body)):  # a ring: full, it is written over
            found |= set(_called_on(one, {"append"})) & _written_to(other)
    return frozenset(found)


def _measured(test: ast.AST) -> Iterator[tuple[str, bool]]:
    """What is asked how long it is, and whether the test holds where it is long."""
    for node in ast.walk(test):
        if isinstance(node, ast.Compare):
            for side, more in ((node.left, _MORE), (node.comparators[0], _LESS)):
                is_length = isinstance(side, ast.Call) and getattr(side.func, "id", "") == "len" and side.args
                if is_length and isinstance(node.ops[0], (*_MORE, *_LESS)):
                    yield next(names(side.args[0]), ""), isinstance(node.ops[0], more)  # type: ignore[attr-defined]


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether nothing after it is done."""
    return bool(body) and isinstance(body[-1], ast.Return | ast.Continue | ast.Break | ast.Raise)


def _called_on(body: list[ast.stmt], methods: set[str]) -> Iterator[str]:
    for node in _parts(body):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods:
            yield next(names(node.func.value), "")


def _added_to(body: list[ast.stmt]) -> set[str]:
    return {*_called_on(body, _ADDING), *_written_to(body)}


def _written_to(body: list[ast.stmt]) -> set[str]:
    """What has an element set."""
    return {next(names(one.value), "") for one in _targets(body) if isinstance(one, ast.Subscript)}


def _targets(body: list[ast.stmt]) -> Iterator[ast.AST]:
    for node in _parts(body):
        yield from node.targets if isinstance(node, ast.Assign) else ()


def _parts(body: list[ast.stmt]) -> Iterator[ast.AST]:
    return (part for statement in body for part in ast.walk(statement))
