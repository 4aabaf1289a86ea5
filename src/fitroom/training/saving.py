"""Writes checkpoints off the training's thread, spaced so that they cost little."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from typing import Any

from fitroom.devices import host
from fitroom.training.checkpoint_files import Folder

_SOON = 1.0  # seconds until the first one after a death: what came after the last one was lost
_OFTEN = 5.0  # seconds between two, at least
_COST = 100  # times what one costs: one percent of the time
_PER_SECOND = 400e6  # bytes, as long as nothing has been measured
_OF_DISK = 0.25  # of what is free: as much as the ends of trainings may take
_OF_ROOM = 0.25  # of the memory that is left: as much as a copy may take

Content = Callable[[bool], tuple[dict[str, Any], list[Any]]]


class Saver:
    """Decides when a checkpoint is due, and writes it.

    Args:
        folder: where to.
        tell: takes events.
        every: seconds between two checkpoints; None to have them cost little.
        after_death: whether the process before this one died.
    """

    def __init__(self, folder: Folder, tell: Callable[..., object], *, every: float | None, after_death: bool) -> None:
        self._folder = folder
        self._tell = tell
        self._every = every
        self._after_death = after_death
        self._next = time.monotonic() + (every if every is not None else _SOON if after_death else _OFTEN)
        self._writing: threading.Thread | None = None
        self._cost = self._spent = 0.0  # of the last one, and of all
        self._born = time.monotonic()
        self._has_failed = False

    def begin(self, size: int) -> None:
        """A training has begun whose checkpoints take about so many bytes: the first one waits until it is worth it."""
        if self._every is None and not self._after_death and not self._cost:
            self._next = max(self._next, time.monotonic() + _COST * size / _PER_SECOND)

    def is_due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return time.monotonic() >= self._next and not (self._writing is not None and self._writing.is_alive())

    def may_save_end(self, size: int) -> bool:
        """Whether the end of a training may be saved, which takes so many bytes.

        Ends are kept until the script has ended. Where trainings are short, or there are many, not all can be: those
        that are not are trained again after a restart.
        """
        if self._every is None:
            cost = max(self._cost, size / _PER_SECOND)
            if (self._spent + cost) * _COST > time.monotonic() - self._born:
                return False
        return self._has_disk_for(size)

    def _has_disk_for(self, size: int) -> bool:
        try:
            kept, free = self._folder.size(), shutil.disk_usage(self._folder.path.parent).free
        except OSError:
            return True  # writing it will tell
        if kept + size < (kept + free) * _OF_DISK:
            return True
        self._failed("the ends of its trainings would take a quarter of the disk")
        return False

    def save(self, training: int, steps: int | None, content: Content, size: int) -> None:
        """Write a checkpoint, after `steps` steps of a training, or None at its end; returns once it is copied.

        Args:
            training: which one.
            steps: how many.
            content: gives what to write; told whether to copy it.
            size: about how many bytes that is. Where there is no room for a copy, it returns once it is written.
        """
        begun = time.monotonic()
        self.wait()
        self._next = float("inf")  # until it is known what it cost
        has_room = size < host.memory().available * _OF_ROOM
        try:
            about, arrays = content(has_room)
        except Exception as error:  # whatever it is, the training goes on
            self._failed(f"{type(error).__name__}: {error}")
            return
        if has_room:
            copied = time.monotonic() - begun
            self._writing = threading.Thread(target=self._write, args=(training, steps, about, arrays, copied))
            self._writing.start()
        else:
            self._write(training, steps, about, arrays, 0.0)

    def wait(self) -> None:
        """Until what is being written is there."""
        if self._writing is not None:
            self._writing.join()
            self._writing = None

    def _write(self, training: int, steps: int | None, about: dict[str, Any], arrays: list[Any], copied: float) -> None:
        begun = time.thread_time()
        try:
            size = self._folder.write(training, steps, about, arrays)
        except Exception as error:  # whatever it is, the training goes on
            self._failed(getattr(error, "strerror", None) or f"{type(error).__name__}: {error}")
        else:
            self._has_failed = False
            told = {"epoch": about["epoch"], "step": about["step"], "finished": steps is None, "bytes": size}
            self._tell("checkpoint", training=training, **told)
            self._rest(copied + time.thread_time() - begun)

    def _failed(self, reason: str) -> None:
        if not self._has_failed:
            self._tell("checkpoint_lost", reason=reason, folder=str(self._folder.path))
        self._has_failed = True
        self._rest(self._cost)

    def _rest(self, cost: float) -> None:
        """Until the next one, so that the last one's cost is little."""
        self._cost = cost
        self._spent += cost
        self._next = time.monotonic() + (self._every if self._every is not None else max(_OFTEN, _COST * cost))
