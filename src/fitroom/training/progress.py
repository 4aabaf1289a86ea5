"""Counts what trains in this process, for who watches: steps, the time they take and wait, the device's bytes.

Under `fitroom run` it is written down once a second, at the end of a step; `MemoryMonitor` asks by itself.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from fitroom.devices.meter import Meter
from fitroom.devices.progress import FOLDER, Progress, ProgressFile
from fitroom.devices.waiting import Pipeline

_PERIOD = 1.0  # seconds between two times that it is written down
_WAITS = 0.1  # of the time: then it is worth a look at where batches come from


class Counting:
    """All trainings of a process.

    Attributes:
        steps: made so far.
        waited: seconds spent waiting for batches.
        stepped: seconds spent in steps.
        meter: the device that trains; None where its allocator does not count.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.waited = 0.0
        self.stepped = 0.0
        self.meter: Meter | None = None
        self._source: Any = None
        self._watchers: list[Asking] = []  # those who want each step's own peak

    def made_step(self, waited: float = 0.0, stepped: float = 0.0, iterator: Any = None, count: int = 1) -> None:
        """Count a step.

        Args:
            waited: seconds until its batch was there.
            stepped: seconds that it took from then on.
            iterator: where the batch came from.
            count: how many steps it was.
        """
        self.steps += count
        self.waited += waited
        self.stepped += stepped
        if iterator is not None and (self._source is None or self._source() is not iterator):
            self._source = _reference(iterator)
        if self._watchers and self.meter is not None:
            in_use, peak = self.meter.both()
            self.meter.reset()
            for one in self._watchers:
                one.saw(in_use, peak)

    @property
    def iterator(self) -> Any:
        """Where the last batch came from, if that is still there."""
        return self._source() if self._source is not None else None

    def watched_by(self, asking: Asking) -> None:
        """Have each step's own peak taken down, for which the allocator's counter is set back after each step."""
        if self.meter is not None:
            self.meter.reset()
        self._watchers.append(asking)

    def left_by(self, asking: Asking) -> None:
        """It is no longer watched."""
        self._watchers.remove(asking)


class Asking:
    """One who asks how far it is, and gets what has happened since it last asked."""

    def __init__(self, counting: Counting) -> None:
        self._counting = counting
        self._lock = threading.Lock()  # steps are made in one thread, and asked for in another
        self._in_use: int | None = None  # at the end of a step
        self._peak = 0  # of the steps since
        self._seen = (0.0, 0.0)  # waited and stepped, then

    def saw(self, in_use: int, peak: int) -> None:
        """Take down a step's bytes."""
        with self._lock:
            self._in_use, self._peak = in_use, max(self._peak, peak)

    def now(self) -> Progress:
        """How far it is."""
        one = self._counting
        return Progress(one.steps, one.waited, one.stepped, **self._device(one.meter), pipeline=self._pipeline())

    def _device(self, meter: Meter | None) -> dict[str, Any]:
        if meter is None:
            return {}
        now, since = meter.both()  # the peak since the last step counts, too: a validation's
        with self._lock:
            in_use, peak, self._peak = self._in_use, self._peak, 0
        if in_use is None or not peak:
            in_use = now
        return {"device": meter.device, "in_use": in_use, "peak": max(peak, since, in_use), "limit": meter.limit}

    def _pipeline(self) -> Pipeline | None:
        one = self._counting
        waited, stepped = one.waited - self._seen[0], one.stepped - self._seen[1]
        self._seen = one.waited, one.stepped
        iterator = one.iterator
        if iterator is None or waited <= _WAITS * (waited + stepped):
            return None
        from fitroom.data import pipeline_seams

        try:
            return pipeline_seams.look(iterator)
        except Exception:  # whatever an iterator is, a look at it must not end a training
            return None


class Written:
    """The count, as `fitroom run` looks for it: in a file of this process'."""

    def __init__(self, counting: Counting) -> None:
        self._asking = Asking(counting)
        self._told = 0.0
        self._file: ProgressFile | None = None
        self._pid = 0

    def write(self, record: Path) -> bool:
        """Write it down beside the Record, if it is time; whether it was."""
        now = time.monotonic()
        if now - self._told < _PERIOD:
            return False
        self._told = now
        if self._file is None or self._pid != os.getpid():  # also in a process that the script has forked
            if self._file is None:
                atexit.register(self._write_last)
            self._pid = os.getpid()
            self._file = ProgressFile(record.parent / FOLDER, self._pid)
        self._file.write(self._asking.now())
        return True

    def _write_last(self) -> None:
        """The steps of the last second count, too."""
        if self._file is not None and self._pid == os.getpid():
            with suppress(Exception):  # nothing that is only watched may end a script badly
                self._file.write(self._asking.now())


def _reference(iterator: Any) -> Any:
    """A way to it that does not keep it alive: with it go its threads and buffers."""
    try:
        return weakref.ref(iterator)
    except TypeError:  # a generator of Python's own
        return lambda: None


counting = Counting()
written = Written(counting)
