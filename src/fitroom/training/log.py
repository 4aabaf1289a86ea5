"""What happened to one guarded thing: its events, and the closing line about those not yet told."""

from __future__ import annotations

import atexit
import os
import sys

from fitroom.core import Event, RecordFile
from fitroom.core.noun import Scalar
from fitroom.training.summary import closing_line


class Log:
    """Events as they happen; also in the Record that `FITROOM_RECORD` names.

    Args:
        says_at_exit: whether to say the closing line when Python ends: nothing else tells when a loop is over.
    """

    def __init__(self, *, says_at_exit: bool = False) -> None:
        self.says_at_exit = says_at_exit
        self.events: list[Event] = []
        self._said = 0
        path = os.environ.get("FITROOM_RECORD")
        self._file = RecordFile(path) if path else None

    def tell(self, kind: str, **data: Scalar) -> None:
        """Take an event into the record."""
        if self.says_at_exit and not self.events:
            atexit.register(self.say)
        event = self._file.append(kind, **data) if self._file else Event.now(kind, **data)
        self.events.append(event)

    def say(self) -> None:
        """Say what has happened since the last time; nothing where nothing has."""
        line = closing_line(self.events[self._said :])
        self._said = len(self.events)
        if line is not None:
            print(line, file=sys.stderr)
