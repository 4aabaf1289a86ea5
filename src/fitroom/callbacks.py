"""Keras callbacks: thin covers over what other parts do."""

from __future__ import annotations

import functools
import os
import sys
import threading
from pathlib import Path
from typing import Any

import keras

from fitroom.core import Diagnosis, RecordFile
from fitroom.core.leak_words import sentence
from fitroom.devices.timeline import Timeline
from fitroom.errors import UsageError
from fitroom.leaks import watching
from fitroom.report import memory as report
from fitroom.report.run_lines import line
from fitroom.supervisor import run_folder
from fitroom.training.monitoring import Monitor


class MemoryMonitor(keras.callbacks.Callback):  # type: ignore[misc] # Keras has no types
    """Watches a training's memory, and what else may run short.

    Takes a point each second: the device's and the host's memory against their limits, with the peak of every step
    between; cores, disk and network; GPUs at work, and who shares them. ``fitroom top`` shows it live. At the end one
    line tells the peaks, and what the training waited for, if it did.

    The allocator's peak counter is set back after each step: who reads it, too, sees a step's.

    Args:
        every: seconds between two points.
        record: the folder for the timeline and events; ``.fitroom/SCRIPT-N`` without it. Under ``fitroom run`` both
            are in the run's own.
        csv: a file for the timeline as a table: means and peaks, at most some 1,800 rows.
        tensorboard: a folder for TensorBoard; to look at it, ``pip install tensorboard``.
        verbose: 0 to say nothing.

    Example:
        >>> model.fit(x, y, callbacks=[fitroom.callbacks.MemoryMonitor(csv="memory.csv")])
    """

    def __init__(
        self,
        every: float = 1.0,
        record: str | None = None,
        csv: str | None = None,
        tensorboard: str | None = None,
        verbose: int = 1,
    ) -> None:
        super().__init__()
        if not 0 < every < threading.TIMEOUT_MAX:
            raise UsageError("A monitor looks now and then", received=f"every={every!r}", expected="seconds above 0")
        self.every = every
        self.verbose = verbose
        self.options = (record, csv, tensorboard)
        self.monitor: Monitor | None = None

    @property
    def timeline(self) -> Timeline:
        """What was measured, thinned."""
        return self.monitor.timeline if self.monitor is not None else Timeline()

    def on_train_begin(self, logs: Any = None) -> None:
        """Begin to watch."""
        if self.monitor is None:
            record, csv, tensorboard = self.options
            home = None if "FITROOM_RUN" in os.environ else _home(record)
            table, board = (None if one is None else Path(one).absolute() for one in (csv, tensorboard))
            tell = functools.partial(_tell, record, self.verbose)  # without this callback, which has the model
            self.monitor = Monitor(self.every, home, table, board, tell)
        self.monitor.begins(self.model)

    def on_train_end(self, logs: Any = None) -> None:
        """Stop watching, and say what was seen."""
        if self.monitor is not None:
            self.monitor.ends()
            if self.verbose:
                waits = self.monitor.waits_for
                advice = None if waits is None else (waits.evidence, waits.advice)
                _say(report.closing(self.monitor.timeline.peak, advice))


def _tell(record: str | None, verbose: int, kind: str, **data: Any) -> None:
    """Take an event down, and say it, if somebody wants to know."""
    if "FITROOM_RUN" in os.environ:  # the supervisor sees it, too
        return
    words = line(_record(record).append(kind, **data))
    if verbose and words is not None:
        _say(words)


def _say(words: str) -> None:
    print(f"fitroom: {words}", file=sys.stderr)


@functools.cache
def _home(record: str | None) -> Path:
    """The folder of this process: one for all its trainings."""
    script = Path(sys.argv[0]).name
    folder, elsewhere = run_folder.make("python" if script in ("", "-c", "-m") else script, record)
    if elsewhere is not None:
        print(f"fitroom: {elsewhere}", file=sys.stderr)
    run_folder.hold(folder)  # until the process ends
    return folder.absolute()


@functools.cache
def _record(record: str | None) -> RecordFile:
    return RecordFile(_home(record) / run_folder.RECORD)


class LeakWatch(keras.callbacks.Callback):  # type: ignore[misc] # Keras has no types
    """Watches a training for leaks, and says what leaks, on which line, and what to do.

    A training that is healthy prints nothing. Made once and given to several `fit`s, or made anew for each, it watches
    the process from the first time on: loops over trainings, too, and what is done between them.

    Args:
        act: whether to do something about a leak, where that changes no result: collect garbage, have malloc give back
            what it keeps, clear Keras' session between trainings.

    Example:
        >>> model.fit(x, y, callbacks=[fitroom.callbacks.LeakWatch()])
    """

    def __init__(self, act: bool = False) -> None:
        super().__init__()
        self._watch: Any = watching.begin(act=act)
        self._said: set[Any] = set()

    @property
    def found(self) -> list[Diagnosis]:
        """What leaks, as far as is known."""
        return [leak.diagnosis() for leak in self._watch.leaks] if self._watch is not None else []

    def on_train_end(self, logs: Any = None) -> None:
        """Say what was found, once; under ``fitroom run`` the account does."""
        for leak in self._watch.leaks if self._watch is not None and not watching.is_supervised() else ():
            if leak.key not in self._said:
                self._said.add(leak.key)
                print(f"fitroom: {sentence(leak.event())}", file=sys.stderr)
