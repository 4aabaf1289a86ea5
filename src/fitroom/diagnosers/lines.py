"""The lines of a log that are worth reading, and the text that they make together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple


class Line(NamedTuple):
    """One line, cleaned, and its number in the log; numbers count from 1."""

    number: int
    text: str


class Passage:
    """Lines in their order, as one text. Places in the text lead back to lines."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.lines = tuple(lines)
        self.text = "\n".join(line.text for line in self.lines)
        self._starts: list[int] = []
        place = 0
        for line in self.lines:
            self._starts.append(place)
            place += len(line.text) + 1

    def index(self, place: int) -> int:
        """The index of the line at a place in the text."""
        return max(0, bisect_right(self._starts, place) - 1)

    def part(self, first: int, last: int) -> Passage:
        """The lines from the one with index `first` up to `last`, without it."""
        return Passage(self.lines[max(0, first) : max(0, last)])
