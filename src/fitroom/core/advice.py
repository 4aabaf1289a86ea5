"""One thing to do about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Advice:
    """One thing to do.

    Attributes:
        what: what to do, in words.
        effect: what it is expected to bring, with numbers where the evidence allows them.
        code: the code or command for it; empty where there is none.
    """

    what: str
    effect: str = ""
    code: str = ""
