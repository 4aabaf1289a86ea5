"""A regular expression that is compiled when it is first used: compiling a hundred takes longer than most commands.

It has the methods of `re.Pattern` that are used here.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


class Pattern:
    """`re.compile`, put off."""

    __slots__ = ("_compiled", "_flags", "_words")

    def __init__(self, words: str, flags: int = 0) -> None:
        self._words, self._flags = words, flags
        self._compiled: re.Pattern[str] | None = None

    def _get(self) -> re.Pattern[str]:
        if self._compiled is None:
            self._compiled = re.compile(self._words, self._flags)
        return self._compiled

    def search(self, text: str) -> re.Match[str] | None:
        """The first match anywhere."""
        return self._get().search(text)

    def match(self, text: str) -> re.Match[str] | None:
        """The match at the beginning."""
        return self._get().match(text)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """All matches."""
        return self._get().finditer(text)

    def findall(self, text: str) -> list[Any]:
        """The words, or groups, of all matches."""
        return self._get().findall(text)

    def split(self, text: str) -> list[Any]:
        """What is between matches."""
        return self._get().split(text)

    def sub(self, by: str | Callable[[re.Match[str]], str], text: str) -> str:
        """The text with matches replaced."""
        return self._get().sub(by, text)
