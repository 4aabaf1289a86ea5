"""What the files of causes are made of: clues, and a page."""

from __future__ import annotations

from dataclasses import dataclass

from fitroom.core import Cause, Page

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fitroom.diagnosers.facts import Facts
    from fitroom.patterns import Pattern


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


def said(facts: Facts, words: Pattern, points: float = 2.5) -> Iterator[Clue]:
    """What somebody wrote beside the log about why. Lists of remedies name many causes, which then cancel out."""
    if match := words.search(facts.words[-12_000:]):
        yield Clue(points, f"it is written beside it: {' '.join(match[0].split())}")
