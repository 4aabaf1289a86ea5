"""Interleaved timing: A B A B …, the ratio of each pair, their median and its interval."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """A ratio with the interval in which its median lies with 95 % confidence."""

    what: str
    median: float
    low: float
    high: float
    goal: float | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        return None if self.goal is None else self.median <= self.goal


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def interleaved(
    what: str,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    *,
    pairs: int = 11,
    goal: float | None = None,
    note: str = "",
) -> Ratio:
    """ours ÷ theirs, measured in `pairs` pairs whose order alternates; one pair before them warms up."""
    ours(), theirs()
    ratios = []
    for turn in range(pairs):
        if turn % 2:
            base, mine = seconds(theirs), seconds(ours)
        else:
            mine, base = seconds(ours), seconds(theirs)
        ratios.append(mine / base)
    low, high = interval(ratios)
    return Ratio(what, statistics.median(ratios), low, high, goal, note)


def interval(values: list[float], draws: int = 2000) -> tuple[float, float]:
    """The 95 % bootstrap interval of the median."""
    generator = random.Random(0)
    medians = sorted(statistics.median(generator.choices(values, k=len(values))) for _ in range(draws))
    return medians[int(0.025 * draws)], medians[int(0.975 * draws)]
