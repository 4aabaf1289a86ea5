"""The names in an expression."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def names(node: ast.AST) -> Iterator[str]:
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
            yield from own_name(node)
            return


def used(value: ast.AST) -> set[str]:
    """All names in an expression."""
    return {name for part in ast.walk(value) for name in own_name(part)}


def own_name(node: ast.AST) -> Iterator[str]:
    """The name of a variable or an attribute."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
