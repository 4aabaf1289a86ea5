"""Something else in the place of an attribute, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def instead(owner: Any, name: str, replacement: Any) -> Iterator[None]:
    """Have `owner.name` be `replacement` for a while, past Keras' attribute tracking."""
    absent = object()
    before = owner.__dict__.get(name, absent)
    owner.__dict__[name] = replacement
    try:
        yield
    finally:
        if before is absent:
            del owner.__dict__[name]
        else:
            owner.__dict__[name] = before


@contextmanager
def replaced(replacements: list[tuple[Any, str, Any]]) -> Iterator[None]:
    """Have each (owner, name, value) hold for a while; the owners define their names themselves."""
    before = [(owner, name, vars(owner)[name]) for owner, name, _ in replacements]
    for owner, name, value in replacements:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)
