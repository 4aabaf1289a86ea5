"""Containers that are added to only while they are short: ``if len(kept) < 100: kept.append(x)``; or in one pass only.

Such a one grows like a leak until it is full, which may be after the run. Which way the comparison goes counts:
``if len(memory) < 32: return`` waits for enough, and bounds nothing. What is removed from is in removing.py.

Outputs that one pass over the data gathers, to be joined right after it (``np.concatenate(outputs)``), have the data's
size for a bound.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitroom.leaks.expressions import names

_ADDING = {"append", "appendleft", "extend", "insert", "add", "update", "setdefault"}
_JOINING = {"concat", "concatenate", "vstack", "hstack"}
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
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef):
            found |= _gathered(node.body)
    return frozenset(found)


def _gathered(body: list[ast.stmt]) -> set[str]:
    """What is begun empty, added to in one loop over something, and joined after it."""
    begun: set[str] = set()
    passed: set[str] = set()
    found: set[str] = set()
    for statement in _flat(body):
        joined = set(_joined(statement))
        found |= joined & passed
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            begun |= set(_begun(statement))
        elif isinstance(statement, ast.For | ast.AsyncFor):
            inner = [one for one in _parts(statement.body) if isinstance(one, ast.For | ast.While | ast.AsyncFor)]
            deeper = {name for one in inner for name in _called_on(one.body, _ADDING)}
            passed |= (begun & set(_called_on(statement.body, _ADDING))) - deeper
            found |= _gathered(statement.body)  # once an epoch
    return found


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block, with those of blocks that are no loops."""
    for statement in body:
        if isinstance(statement, ast.With | ast.If | ast.Try):
            yield from _flat(statement.body)
        else:
            yield statement


def _begun(statement: ast.Assign | ast.AnnAssign) -> Iterator[str]:
    """The names that a statement sets to an empty list."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    for target in targets:
        pairs = [(target, statement.value)]
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            pairs = list(zip(target.elts, statement.value.elts, strict=False))
        for one, value in pairs:
            if isinstance(one, ast.Name) and isinstance(value, ast.List) and not value.elts:
                yield one.id


def _joined(statement: ast.stmt) -> Iterator[str]:
    """The names of lists that a statement makes one array of, however they are passed through."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in _JOINING:
            given = node.args[0] if node.args else next((one.value for one in node.keywords), None)
            if isinstance(given, ast.ListComp | ast.GeneratorExp):
                given = given.generators[0].iter
            yield from (given.id,) if isinstance(given, ast.Name) else ()


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
