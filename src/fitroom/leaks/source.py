"""What the lines of a file do to its variables: add, set, empty, pass on, keep below a bound. Text in, Source out."""

from __future__ import annotations

import ast
import linecache
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fitroom.leaks import bounds, removing
from fitroom.leaks.expressions import names, used
from fitroom.leaks.places import Place

_ADDING = {"append", "appendleft", "extend", "insert", "add", "update", "setdefault", "put", "put_nowait", "write"}
_ADDING_TO_FIRST = {"heappush", "insort", "insort_left", "insort_right"}
_LARGEST = 2_000_000  # characters of a file that is read
_LOOPS = (ast.For, ast.While, ast.AsyncFor, ast.ListComp, ast.SetComp, ast.DictComp)

_SECONDS = 3.0  # of reading, in all: what is not read by then is not known

ADDS, SETS, EMPTIES, REMOVES = range(4)


class Within(NamedTuple):
    """Where in a file a line is.

    Attributes:
        owners: the classes and functions around it, outermost first.
        depth: how many loops and functions it is in: what is at the top of a script runs once.
        own: names that are variables of the innermost function.
    """

    owners: tuple[str, ...] = ()
    depth: int = 0
    own: frozenset[str] = frozenset()


class Line(NamedTuple):
    """A line that adds to, or sets, a variable.

    Attributes:
        path: the names on the way to what is changed, the nearest first.
        rank: whether it adds to the variable, sets it, sets it to nothing, or keeps it from growing for ever.
        ties: whether what it sets comes back to whom it is set on, as in ``child.parent = self``.
        is_bare: whether it is a variable by itself, not something's attribute or element.
    """

    place: Place
    within: Within
    path: tuple[str, ...]
    rank: int
    ties: bool = False
    is_bare: bool = False


class Alias(NamedTuple):
    """Another name for something: ``store = self.kept``, or ``remember(kept)``.

    Attributes:
        name: the other name; None where it is a function's argument.
        of: the names on the way to what it stands for.
        owners: where the other name is known; everywhere where there are none.
        call: the function that is called; at: which argument it is, by number or name.
    """

    name: str | None
    of: tuple[str, ...]
    owners: tuple[str, ...] = ()
    call: str = ""
    at: int | str = 0


class Source(NamedTuple):
    """What is known of a file; `parameters` are those of its functions, by their names or their classes'."""

    lines: tuple[Line, ...] = ()
    aliases: tuple[Alias, ...] = ()
    parameters: tuple[tuple[str, tuple[str, ...]], ...] = ()
    bounded: frozenset[str] = frozenset()


_known: dict[str, Source] = {}  # a project has many files, and each is asked for at every look
_spent = 0.0


def read(file: str, words: Iterable[str]) -> Source:
    """What is known of a file with one of some words in it; nothing of others, which need not be parsed."""
    global _spent
    if file not in _known:
        text = "".join(linecache.getlines(file))
        if not any(word in text for word in words) or _spent > _SECONDS:
            return Source()
        start = time.monotonic()
        _known[file] = _parsed(file, text)
        _spent += time.monotonic() - start
    return _known[file]


def _parsed(file: str, text: str) -> Source:
    """Nothing is known of a file that is no Python, as a notebook's cell with magic in it."""
    if len(text) > _LARGEST:
        return Source()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return Source()
    bound = frozenset(one.targets[0].id for one in ast.walk(tree) if _is_bound_method(one))  # type: ignore[attr-defined]
    nodes = list(_walk(tree, Within()))
    kept_small = removing.removals(tree)
    return Source(
        tuple(line for node, within in nodes for line in _lines(node, within, file, bound, kept_small)),
        tuple(alias for node, within in nodes for alias in _aliases(node, within)),
        tuple(known for node, within in nodes for known in _parameters(node, within)),
        bounds.written(tree),
    )


def _walk(node: ast.AST, within: Within) -> Iterator[tuple[ast.AST, Within]]:
    for child in ast.iter_child_nodes(node):
        yield child, within
        inner = within
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            name = getattr(child, "name", "<lambda>")
            inner = Within((*within.owners, name), within.depth + 1, _own(child))
        elif isinstance(child, ast.ClassDef):
            inner = Within((*within.owners, child.name), within.depth, within.own)
        elif isinstance(child, _LOOPS):
            inner = Within(within.owners, within.depth + 1, within.own)
        yield from _walk(child, inner)


def _own(function: ast.AST) -> frozenset[str]:
    """The names that are a function's own: its parameters, and what it sets."""
    found, others = set(), set()
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            others.update(node.names)
    return frozenset(found - others)


# --- what one node does ---------------------------------------------------------------------------------------------


def _lines(
    node: ast.AST, within: Within, file: str, bound: frozenset[str], kept_small: dict[ast.AST, ast.AST]
) -> Iterator[Line]:
    function = within.owners[-1] if within.owners else ""
    removed = [(kept_small[node], REMOVES, False)] if node in kept_small else []
    for target, rank, ties in (*_changed(node, bound), *removed):
        path = tuple(names(target))
        if path:
            place = Place(file, getattr(node, "lineno", 0), function)
            yield Line(place, within, path, rank, ties, isinstance(target, ast.Name))


def _changed(node: ast.AST, bound: frozenset[str]) -> Iterator[tuple[ast.AST, int, bool]]:
    """What one statement or call adds to or sets, how, and whether it ties."""
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if isinstance(node.func, ast.Attribute) and name in _ADDING:
            yield node.func.value, ADDS, any("self" in used(argument) for argument in node.args)
        elif isinstance(node.func, ast.Name) and name in bound:  # add = kept.append
            yield node.func, ADDS, False
        elif name in _ADDING_TO_FIRST and node.args:
            yield node.args[0], ADDS, False
    elif isinstance(node, ast.AugAssign):
        yield node.target, ADDS, False
    elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            for one in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                yield _assigned(one, node.value)


def _assigned(target: ast.AST, value: ast.AST) -> tuple[ast.AST, int, bool]:
    known = used(value)
    root = target
    while isinstance(root, ast.Subscript | ast.Attribute):
        root = root.value
    ties = "self" in known or (isinstance(root, ast.Name) and root is not target and root.id in known)
    is_empty = isinstance(value, ast.List | ast.Dict | ast.Tuple) and not known
    if isinstance(target, ast.Subscript):  # kept[epoch] = {} only makes room for what is added
        return target.value, SETS if is_empty else ADDS, ties
    nothing = isinstance(value, ast.Constant) or is_empty
    # x = tf.concat([x, y], 0) adds, x = [] does not
    return target, EMPTIES if nothing else ADDS if next(names(target), None) in known else SETS, ties


# --- other names ----------------------------------------------------------------------------------------------------


def _is_bound_method(node: ast.AST) -> bool:
    """Whether it is ``add = kept.append``."""
    is_plain = isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
    return is_plain and isinstance(node.value, ast.Attribute) and node.value.attr in _ADDING  # type: ignore[attr-defined]


def _aliases(node: ast.AST, within: Within) -> Iterator[Alias]:
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name | ast.Attribute | ast.Subscript):
        value = node.value.value if _is_bound_method(node) and isinstance(node.value, ast.Attribute) else node.value
        of = tuple(names(value))
        for target in node.targets:
            if isinstance(target, ast.Name):
                yield Alias(target.id, of, within.owners)
            elif isinstance(target, ast.Attribute):
                yield Alias(target.attr, of)
    elif isinstance(node, ast.Call):
        call = getattr(node.func, "attr", getattr(node.func, "id", ""))
        given: list[tuple[int | str, ast.AST]] = list(enumerate(node.args))
        given += [(keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg is not None]
        for at, one in given:
            if isinstance(one, ast.Name | ast.Attribute | ast.Subscript):
                yield Alias(None, tuple(names(one)), (), call, at)


def _parameters(node: ast.AST, within: Within) -> Iterator[tuple[str, tuple[str, ...]]]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        known = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        known = known[1:] if known[:1] in (["self"], ["cls"]) else known
        yield (within.owners[-1] if node.name == "__init__" and within.owners else node.name), tuple(known)
