"""What can be done about a leak while the script runs, without a change to its result: collect, trim, clear."""

from __future__ import annotations

import gc
import time
from typing import NamedTuple

from fitroom.core import Cause
from fitroom.leaks import asking_seams, counters
from fitroom.leaks.leak import Leak

_SHARE = 0.02  # of the time, at most
_APART = 20.0  # times what it takes, until it is done again

CLEARED = {Cause.MODELS_IN_LOOP, Cause.XLA_PROGRAMS_IN_LOOP}
COLLECTED = {*CLEARED, Cause.REFERENCE_CYCLES, Cause.DATASET_IN_LOOP, Cause.PREDICT_IN_LOOP, Cause.RETRACING}
TRIMMED = {*COLLECTED, Cause.MALLOC_RETENTION}


class Gain(NamedTuple):
    """What an action gave back, in bytes, and how long it took."""

    action: str
    gained: int
    seconds: float


class Acting:
    """Acts where a leak is known that acting helps against, and seldom enough to cost little."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._spent = 0.0
        self._takes = 0.0
        self._ended = float("-inf")

    def is_due(self, leaks: list[Leak]) -> bool:
        """Whether there is something to act against, and it is time."""
        if not any(leak.cause in TRIMMED for leak in leaks):
            return False
        now = time.monotonic()
        is_seldom = now - self._ended >= _APART * self._takes
        return is_seldom and self._spent + self._takes <= _SHARE * (now - self._began) + 1.0

    def act(self, leaks: list[Leak], *, between_trainings: bool) -> Gain | None:
        """Do what helps against these leaks; None where there is nothing to do."""
        causes = {leak.cause for leak in leaks}
        done = []
        reader = counters.Counters()
        before, start = reader.read(), time.monotonic()
        if between_trainings and causes & CLEARED and asking_seams.clear_session():
            done.append("cleared the session")
        if causes & COLLECTED:
            gc.collect()
            done.append("collected garbage")
        if causes & TRIMMED and counters.trim():
            done.append("had malloc give back what it kept")
        self._ended = time.monotonic()
        self._takes = self._ended - start
        self._spent += self._takes
        if not done:
            return None
        after = reader.read()
        gained = max(0, before.rss - after.rss) + max(0, before.device - after.device)
        return Gain(", ".join(done), gained, self._takes)
