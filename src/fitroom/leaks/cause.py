"""What the files of leaks' causes have in common: the page, and the least that counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from fitroom.core import Cause, Page
from fitroom.diagnosers.cause import page
from fitroom.leaks.facts import Facts
from fitroom.leaks.happenings import Made
from fitroom.leaks.leak import Leak
from fitroom.units import KIB

__all__ = ["LEAST", "OFTEN", "LeakFile", "is_much", "page", "repeated"]

LEAST = 64 * KIB  # that have come and stay, before anything is said
LEAST_EACH = 512  # bytes for each turn: below that it is anything's noise
OFTEN = 4  # times: twice is no loop


class LeakFile(Protocol):
    """One cause: its page, and how it is found."""

    CAUSE: Cause
    PAGE: Page

    def find(self, facts: Facts) -> Iterator[Leak]:
        """The leaks of this cause, with the evidence for them."""


def repeated(facts: Facts, *kinds: str) -> tuple[Made, int, int] | None:
    """What is made again and again, look after look: the most frequent, how often in all, and since the first look."""
    found = []
    for made, total in facts.happened.made.items():
        counts = [look.made[made] for look in facts.looks]
        times = counts[-1] - counts[0]
        is_meant = made.kind in kinds and total >= OFTEN and facts.still(counts)
        if is_meant and not facts.may_be_ours(times, kind=made.kind):
            found.append((made, total, times))
    return max(found, key=lambda one: one[2], default=None)


def is_much(rise: int, times: int) -> bool:
    """Whether what has come is worth a word, in all and for each time."""
    return rise >= LEAST and rise / max(1, times) >= LEAST_EACH
