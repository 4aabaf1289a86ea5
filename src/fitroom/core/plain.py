"""Text that only says something: what a name holds must not drive the terminal that it is shown on."""

from __future__ import annotations


def plain(text: str) -> str:
    """The text in one line, with a mark in place of each control character."""
    return "".join(one if one.isprintable() else " " if one.isspace() else "\N{REPLACEMENT CHARACTER}" for one in text)
