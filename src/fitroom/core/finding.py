"""What a lint rule found, and where."""

from __future__ import annotations

from dataclasses import dataclass

from fitroom.core.noun import Noun


@dataclass(frozen=True)
class Fix:
    """A change to the source that removes the finding.

    Attributes:
        start, end: the replaced span, as offsets in characters.
        replacement: the new text.
        safe: whether the program certainly does the same afterwards, but for its memory.
    """

    start: int
    end: int
    replacement: str
    safe: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"a span runs forward: {self.start} to {self.end}")


@dataclass(frozen=True)
class Finding(Noun):
    """A memory hazard in source code: the rule, its place, what is wrong, and the fix if there is one."""

    rule: str
    path: str
    line: int
    column: int
    message: str
    fix: Fix | None = None

    def __post_init__(self) -> None:
        if self.line < 1 or self.column < 1:
            raise ValueError(f"lines and columns start at 1: {self.line}:{self.column}")

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.rule} {self.message}"
