"""What happened to one guarded thing: its events, and what is said of them."""

from __future__ import annotations

import atexit
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from fitroom.core import Event, RecordFile
from fitroom.core.noun import Scalar
from fitroom.devices import limits
from fitroom.devices.meter import Meter
from fitroom.training.progress import counting, written
from fitroom.training.summary import closing_line

_SELDOM = 0.01  # of the time so far, between two events about progress: the record of a long run stays small


class Log:
    """Events as they happen; also in the Record that `FITROOM_RECORD` names.

    Under `fitroom run` the supervisor reads them there and does the talking.

    Args:
        says_at_exit: whether to say the closing line when Python ends: nothing else tells when a loop is over.
    """

    def __init__(self, *, says_at_exit: bool = False) -> None:
        self.says_at_exit = says_at_exit
        self.events: list[Event] = []
        self._said = 0
        self._is_supervised = "FITROOM_RUN" in os.environ
        path = os.environ.get("FITROOM_RECORD")
        self._file = RecordFile(path, _say if self._is_supervised else None) if path else None

    def tell(self, kind: str, **data: Scalar) -> None:
        """Take an event into the record."""
        if self.says_at_exit and not self.events:
            atexit.register(self.say)
        event = self._file.append(kind, **data) if self._file else Event.now(kind, **data)
        self.events.append(event)
        for listener in _listeners:
            listener(kind, data)

    def say(self) -> None:
        """Say what has happened since the last time; nothing where nothing has."""
        line = closing_line(self.events[self._said :])
        self._said = len(self.events)
        if line is not None and not self._is_supervised:
            print(line, file=sys.stderr)

    def left_alone(self, what: str, reason: str, then: str = "It runs as without fitroom") -> None:
        """Say that something is not guarded, why, and what happens instead."""
        reason = reason.rstrip(".")
        if self._is_supervised:
            self.tell("left_alone", what=what, reason=reason)
        else:
            warnings.warn(f"fitroom does not guard {what}: {reason}. {then}.", stacklevel=4)

    def begins(self, meter: Meter | None = None) -> None:
        """Take down what the process uses before its first training; only the supervisor asks."""
        counting.meter = meter or counting.meter
        if self._is_supervised and not _progress.has_begun:
            _progress.has_begun = True
            _progress.begun = time.monotonic()
            self.tell("training", **{use.what: use.used for use in limits.uses(os.getpid())})

    def made_step(self, waited: float = 0.0, stepped: float = 0.0, iterator: Any = None) -> None:
        """Count a step, and take the count down now and then; only the supervisor asks.

        Args:
            waited: seconds until its batch was there.
            stepped: seconds that it took from then on.
            iterator: where the batch came from.
        """
        counting.made_step(waited, stepped, iterator)
        if self._is_supervised and self._file and written.write(self._file.path):
            now = time.monotonic()
            if now - _progress.told >= _SELDOM * (now - _progress.begun):
                _progress.told = now
                self._file.append("progress", steps=counting.steps)  # for the record only: it goes on for days


_listeners: list[Callable[[str, dict[str, Scalar]], None]] = []


def listen(listener: Callable[[str, dict[str, Scalar]], None]) -> None:
    """Have `listener` hear of every event in this process."""
    _listeners.append(listener)


def _say(what: str) -> None:
    print(f"fitroom: {what}", file=sys.stderr)


class _Progress:
    """Of all trainings in this process."""

    has_begun = False
    begun = 0.0
    told = 0.0


_progress = _Progress()
