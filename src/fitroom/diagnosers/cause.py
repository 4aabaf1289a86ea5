"""What a file for a cause has: the page that explains it, the clues that speak for it, and what to do about it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from fitroom.core import Advice, Cause, Page

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fitroom.diagnosers.facts import Facts


class Clue(NamedTuple):
    """Something that speaks for a cause.

    Attributes:
        points: how much; 1 is a hint, 3 speaks for itself, 5 and more settles it.
        why: in words.
    """

    points: float
    why: str


class CauseFile(Protocol):
    """What the module of a cause offers."""

    CAUSE: Cause
    PAGE: Page

    def clues(self, facts: Facts) -> Iterator[Clue]:
        """What speaks for it."""

    def advice(self, facts: Facts) -> Iterator[Advice]:
        """What to do, best first."""

    def futile(self, facts: Facts) -> Iterator[str]:
        """What will not help."""


def page(cause: Cause, title: str, what: str, signs: str, todo: str) -> Page:
    """The page of a cause, in the order in which one reads it."""
    text = f"What it is: {what}\n\nHow to recognise it: {signs}\n\nWhat to do: {todo}"
    return Page(cause.value, "cause", title, text)
