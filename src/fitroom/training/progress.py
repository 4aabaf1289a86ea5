"""Counts what trains in this process, for who watches: steps, the time they take and wait, the device's bytes.

Under `fitroom run` it is written down once a second, at the end of a step; `MemoryMonitor` asks by itself.
"""

from __future__ import annotations

import os
import time
import weakref
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
        meter: the device that trains; None where its allocator does not count.
        counts_peaks: whether each step's own peak is asked for: the allocator's counter is then set back at each step.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.meter: Meter | None = None
        self.counts_peaks = False
        self._waited = 0.0
        self._stepped = 0.0
        self._peak = 0
        self._told = 0.0
        self._seen = (0.0, 0.0)  # waited and stepped, when it was last asked
        self._source: Any = None
        self._looks = (0, 0.0)  # how often, and how often nothing was ready
        self._file: ProgressFile | None = None
        self._pid = 0

    def made_step(self, waited: float = 0.0, stepped: float = 0.0, iterator: Any = None) -> None:
        """Count a step.

        Args:
            waited: seconds until its batch was there.
            stepped: seconds that it took from then on.
            iterator: where the batch came from.
        """
        self.steps += 1
        self._waited += waited
        self._stepped += stepped
        if iterator is not None and (self._source is None or self._source() is not iterator):
            self._source = _reference(iterator)
        if self.counts_peaks and self.meter is not None:
            self._peak = max(self._peak, self.meter.peak())
            self.meter.reset()

    def write(self) -> bool:
        """Write it down where `fitroom run` looks for it, if it is time; whether it was."""
        now = time.monotonic()
        if now - self._told < _PERIOD:
            return False
        self._told = now
        if self._pid != os.getpid():  # also in a process that the script has forked
            self._pid = os.getpid()
            self._file = ProgressFile(Path(os.environ["FITROOM_RECORD"]).parent / FOLDER, self._pid)
        if self._file is not None:
            self._file.write(self.now())
        return True

    def now(self) -> Progress:
        """How far it is; to be asked between two steps, or the bytes in use are those of a step under way."""
        return Progress(self.steps, self._waited, self._stepped, **self._device(), pipeline=self._pipeline())

    def looked(self, empty: float) -> None:
        """Take down whether a batch was ready when a step asked for one: where the wait itself does not show."""
        self._looks = self._looks[0] + 1, self._looks[1] + empty

    def _device(self) -> dict[str, Any]:
        if self.meter is None:
            return {}
        peak, self._peak = (self._peak, 0) if self.counts_peaks else (self.meter.peak(), 0)
        in_use = self.meter.current()
        return {
            "device": self.meter.device,
            "in_use": in_use,
            "peak": max(peak, in_use),
            "limit": self.meter.limit,
        }

    def _pipeline(self) -> Pipeline | None:
        waited, stepped = self._waited - self._seen[0], self._stepped - self._seen[1]
        self._seen = self._waited, self._stepped
        iterator = self._source() if self._source is not None else None
        if iterator is None or waited < _WAITS * (waited + stepped):
            return None
        from fitroom.data import pipeline_seams

        return pipeline_seams.look(iterator)


def _reference(iterator: Any) -> Any:
    """A way to it that does not keep it alive: with it go its threads and buffers."""
    try:
        return weakref.ref(iterator)
    except TypeError:  # a generator of Python's own
        return lambda: None


counting = Counting()
