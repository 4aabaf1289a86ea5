"""Writes checkpoints off the training's thread, spaced so that they cost little."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from fitroom.training.checkpoint_files import Folder

_SOON = 1.0  # seconds until the first one after a death: what came after the last one was lost
_OFTEN = 5.0  # seconds between two, at least
_COST = 75  # times what one costs: 1.3 % of the time
_PER_SECOND = 400e6  # bytes, as long as nothing has been measured


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
        self._next = time.monotonic() + (every if every is not None else _SOON if after_death else _OFTEN)
        self._writing: threading.Thread | None = None
        self._cost = 0.0
        self._has_failed = False

    def is_due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return time.monotonic() >= self._next and not (self._writing is not None and self._writing.is_alive())

    def is_worth(self, seconds: float, size: int) -> bool:
        """Whether what took so many seconds is worth a checkpoint of so many bytes."""
        return self._every is not None or seconds > 10 * max(self._cost, size / _PER_SECOND)

    def save(self, training: int, steps: int | None, content: Callable[[], tuple[dict[str, Any], list[Any]]]) -> None:
        """Write a checkpoint, after `steps` steps of a training, or None at its end; returns once it is copied."""
        self.wait()
        begun = time.thread_time()
        about, arrays = content()
        copied = time.thread_time() - begun
        self._writing = threading.Thread(target=self._write, args=(training, steps, about, arrays, copied))
        self._writing.start()
        self._next = float("inf")  # until it is known what it cost

    def wait(self) -> None:
        """Until what is being written is there."""
        if self._writing is not None:
            self._writing.join()
            self._writing = None

    def _write(self, training: int, steps: int | None, about: dict[str, Any], arrays: list[Any], copied: float) -> None:
        begun = time.thread_time()
        try:
            size = self._folder.write(training, steps, about, arrays)
        except OSError as error:
            if not self._has_failed:
                self._tell("checkpoint_lost", reason=f"{error.strerror or error}", folder=str(self._folder.path))
            self._has_failed = True
        else:
            self._has_failed = False
            told = {"epoch": about["epoch"], "step": about["step"], "finished": steps is None, "bytes": size}
            self._tell("checkpoint", training=training, **told)
        self._cost = copied + time.thread_time() - begun
        self._next = time.monotonic() + (self._every if self._every is not None else max(_OFTEN, _COST * self._cost))
