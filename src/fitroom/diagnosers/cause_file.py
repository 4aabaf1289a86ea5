"""What the module of a cause offers, for the type checker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from fitroom.core import Advice, Cause, Page
from fitroom.diagnosers.cause import Clue
from fitroom.diagnosers.facts import Facts


class CauseFile(Protocol):
    """One cause: its page, what speaks for it, what to do."""

    CAUSE: Cause
    PAGE: Page

    def clues(self, facts: Facts) -> Iterator[Clue]:
        """What speaks for it."""

    def advice(self, facts: Facts) -> Iterator[Advice]:
        """What to do, best first."""

    def futile(self, facts: Facts) -> Iterator[str]:
        """What will not help."""
