"""A training watched from within its process: a thread that takes points, and the files that they go to."""

from __future__ import annotations

import atexit
import functools
import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from fitroom.data import pipeline_seams
from fitroom.devices import meter, timeline_file
from fitroom.devices.tensorboard_file import TensorBoardFile
from fitroom.devices.timeline import Span, Timeline
from fitroom.devices.timeline_file import TimelineFile
from fitroom.devices.waiting import Waiting
from fitroom.devices.watching import Watch
from fitroom.training import keras_seams
from fitroom.training.frame_seams import UnderWay
from fitroom.training.plain_waits import PlainWaits
from fitroom.training.progress import Asking, counting

_TABLE = 30.0  # seconds between two times that the table is written
_COUNTS = "_fitroom_counts"  # on a train function that counts its steps
_files: dict[Path, TimelineFile] = {}
_monitors: weakref.WeakSet[Monitor] = weakref.WeakSet()  # those that somebody still has
_boards: set[Monitor] = set()  # those with something to write at the end


class Monitor:
    """Watches trainings, one after the other.

    Args:
        every: seconds between two points.
        folder: where the timeline goes; None for nowhere.
        table: a CSV file; None for none.
        board: a folder of TensorBoard's; None for none.
        tell: takes events: their kind and data. It must not hold the model: a monitor may live as long as the process.

    Attributes:
        waits_for: what the last training waited for; None where it did not.
    """

    def __init__(
        self, every: float, folder: Path | None, table: Path | None, board: Path | None, tell: Callable[..., object]
    ) -> None:
        self._every = every
        self._file = _file_in(folder)
        self._table = table
        self._board = _board_in(board) if board is not None else None
        self._tell = tell
        self._end = threading.Event()
        self._asking = Asking(counting)
        self._watch: Watch | None = None
        self._thread: threading.Thread | None = None
        self._fit: UnderWay | None = None
        self.waits_for: Waiting | None = None
        self._is_lost = False
        self._stands_in: tuple[Any, Any] | None = None  # a model, and what stands in for its train function
        self._is_told = False  # that the table cannot be written
        self._write_table()  # whether it can be written shows before the training, not after
        _monitors.add(self)
        if self._board is not None:
            _boards.add(self)

    @property
    def timeline(self) -> Timeline:
        """What was measured."""
        return self._file.timeline

    def begins(self, model: Any) -> None:
        """A training begins; the one before, if it failed, has ended with that."""
        self.ends()
        guard = keras_seams.hooked(model)
        budget = guard.options.budget if guard is not None else None
        is_known = keras_seams.check(model) is None
        try:
            counting.meter = meter.find(budget, keras_seams.devices(model) if is_known else ())
            self._watch = Watch(os.getpid(), self._file, budget)
        except Exception as error:
            self._lose(error)
            return
        # In a loop of somebody's own there may be none yet; it is made where there is none, and must be.
        plain = model.train_function if guard is None and is_known else None
        if plain is not None and not hasattr(plain, _COUNTS):
            self._stands_in = model, _watched(plain, model, self._every)
            model.train_function = self._stands_in[1]
        counting.watched_by(self._asking)
        self._look()
        self._end.clear()
        self._fit = UnderWay("fit")
        self._thread = threading.Thread(target=self._run, name="fitroom-monitor", daemon=True)
        self._thread.start()

    def ends(self) -> None:
        """A training has ended."""
        if self._thread is not None:
            self._end.set()
            self._thread.join()
            self._thread = None
            self._finish()

    def _finish(self) -> None:
        if self._watch is None:  # the thread has seen that it had failed
            return
        self._fit = None  # and with it what was trained on
        self._look()
        counting.left_by(self._asking)
        if self._stands_in is not None:
            model, function = self._stands_in
            if model.train_function is function:  # and not one that was made since
                model.train_function = function.__wrapped__
            self._stands_in = None
        self._write_table()
        watch, self._watch = self._watch, None
        watch.let_go()
        self.waits_for = watch.waits_for()

    def close(self) -> None:
        """No more trainings; one that failed ends with that."""
        self.ends()
        self._file.close()
        if self._board is not None:
            with suppress(Exception):  # TensorFlow's, of a full disk
                self._board.close(counting.steps)
            self._board = None
        _boards.discard(self)

    def _run(self) -> None:
        while not self._end.wait(self._every):
            if not self._fit:  # it has failed, or was interrupted: Keras tells nobody
                self._finish()
                return
            self._look()

    def _look(self) -> None:
        if self._watch is None or self._is_lost:
            return
        try:
            self._take(self._watch)
        except Exception as error:
            self._lose(error)

    def _lose(self, error: Exception) -> None:
        """Nothing that is only watched may end a training."""
        self._is_lost = True
        warnings.warn(f"fitroom does not watch any longer: {type(error).__name__}: {error}", stacklevel=3)

    def _take(self, watch: Watch) -> None:
        for kind, data in watch.look(self._asking.now()):
            self._tell(kind, **data)
        newest = self.timeline.newest
        if self._board is not None and newest is not None:
            self._draw(self._board, newest)
        if time.monotonic() - self._written >= _TABLE:
            self._write_table()

    def _draw(self, board: TensorBoardFile, newest: Span) -> None:
        try:
            board.add(newest, counting.steps)
        except Exception as error:  # TensorFlow's, of a full disk: all else is watched on
            self._board = None
            warnings.warn(f"fitroom cannot write for TensorBoard any longer: {error}", stacklevel=2)

    def _write_table(self) -> None:
        self._written = time.monotonic()
        if self._table is None:
            return
        try:
            self._table.parent.mkdir(parents=True, exist_ok=True)
            timeline_file.write_csv(self._table, self.timeline)
        except OSError as error:  # a full disk is no reason to stop a training
            if not self._is_told:  # it is tried again, and said once
                warnings.warn(f"fitroom cannot write {self._table}: {error.strerror}", stacklevel=2)
            self._is_told = True


@atexit.register
def _close_all() -> None:
    for one in list(_monitors):
        one.close()


def _file_in(folder: Path | None) -> TimelineFile:
    """The timeline in a folder: one for all monitors of this process, or they would write over each other's."""
    if folder is None:
        return TimelineFile(None)
    path = folder / timeline_file.NAME
    if path not in _files or not _files[path].is_open:
        _files[path] = TimelineFile(path)
    return _files[path]


def _board_in(folder: Path) -> TensorBoardFile | None:
    try:
        return TensorBoardFile(folder)
    except Exception as error:  # TensorFlow's, or the system's
        warnings.warn(f"fitroom cannot write to {folder} for TensorBoard: {error}", stacklevel=2)
        return None


def _watched(plain: Any, model: Any, every: float) -> Any:
    """A train function of plain Keras', with its steps counted."""
    period = max(0.02, every / 20)
    waits, looked, is_traced = PlainWaits(), 0.0, False

    @functools.wraps(plain)
    def train_function(iterator: Any) -> Any:
        nonlocal looked, is_traced
        begun = time.perf_counter()
        if begun - looked >= period and is_traced:
            looked = begun
            found = None
            with suppress(Exception):  # a look must not end a training
                found = pipeline_seams.look(iterator)
            if found is not None:
                waits.saw(found)
        asked = time.perf_counter()
        logs = plain(iterator)
        took = time.perf_counter() - asked
        steps = model.steps_per_execution
        waited = waits.of(took, steps) if is_traced else 0.0
        counting.made_step(waited, took - waited if is_traced else 0.0, iterator, steps)
        is_traced = True
        return logs

    setattr(train_function, _COUNTS, True)
    return train_function
