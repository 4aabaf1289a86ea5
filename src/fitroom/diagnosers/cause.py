"""What the files of causes are made of: clues, and a page."""

from __future__ import annotations

from dataclasses import dataclass

from fitroom.core import Cause, Page


@dataclass(frozen=True)
class Clue:
    """Something that speaks for a cause.

    Attributes:
        points: how much; 1 is a hint, 3 speaks for itself, 5 and more settles it.
        why: in words.
    """

    points: float
    why: str


def page(cause: Cause, what: str, signs: str, todo: str) -> Page:
    """The page of a cause, in the order in which one reads it."""
    text = f"What it is: {what}\n\nHow to recognise it: {signs}\n\nWhat to do: {todo}"
    return Page(cause.value, "cause", cause.words, text)
