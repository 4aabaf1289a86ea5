"""A page for ``fitroom explain``: what a code means, in full."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Page:
    """One code, explained.

    Attributes:
        code: what a user types, such as ``G1``.
        kind: the registry it comes from, such as ``guarantee``.
        title: one line.
        text: the page, in paragraphs.
    """

    code: str
    kind: str
    title: str
    text: str
