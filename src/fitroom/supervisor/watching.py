"""The supervisor's watch over an attempt: once a second, from its own process: the training pays nothing for it."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from fitroom.devices import progress, timeline_file
from fitroom.devices.timeline_file import TimelineFile
from fitroom.devices.watching import Told, Watch
from fitroom.units import MIB

_PERIOD = 1.0  # seconds between two looks


class Watching:
    """Looks at an attempt, now and then; whatever goes wrong with that, the script goes on.

    Args:
        folder: the run's.
        pid: the script's process.
        budget_mib: what tensors may take; None for what there is.
    """

    def __init__(self, folder: Path, pid: int, budget_mib: int | None) -> None:
        self._folder = folder
        self._next = time.monotonic() + _PERIOD  # a script that is over by then has nothing to watch
        self._pid = pid
        self._budget = None if budget_mib is None else budget_mib * MIB
        self._processes = progress.Processes(folder / progress.FOLDER)
        self._watch: Watch | None = None
        self._is_lost = False
        with suppress(OSError):
            for old in (folder / progress.FOLDER).iterdir():  # an earlier attempt's
                old.unlink()

    def look(self) -> list[Told]:
        """Look, if it is time; returns what there is to tell."""
        if self._is_lost or time.monotonic() < self._next:
            return []
        self._next = time.monotonic() + _PERIOD
        try:
            if self._watch is None:
                file = TimelineFile(self._folder / timeline_file.NAME)
                self._watch = Watch(self._pid, file, self._budget)
            return self._watch.look(self._processes.together())
        except Exception as error:  # nothing that is only watched may end a training
            self._is_lost = True
            return [("watch_lost", {"reason": f"{type(error).__name__}: {error}"})]

    def close(self) -> None:
        """The attempt is over."""
        if self._watch is not None:
            with suppress(Exception):
                last = self._processes.together()
                if last is not None:
                    self._watch.came_to(last)
                self._watch.let_go()
                self._watch.file.close()
