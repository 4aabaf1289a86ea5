"""A process of Python: watched, its standard error remembered."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from fitroom import oom
from fitroom.devices import host, limits
from fitroom.supervisor import deaths
from fitroom.supervisor.streams import Copy, is_own

DUMPS = "TF_BFC_MEMORY_DUMP"  # where TensorFlow's allocator writes down that it has run out


class Ended(NamedTuple):
    """How a process ended.

    Attributes:
        code: its exit code, negative for a signal.
        death: what it ran out of, if it died of memory.
        last: what was used of the limits that bind it, shortly before.
        said: the end of what it said on standard error.
    """

    code: int
    death: oom.Exhaustion | None
    last: list[limits.Use]
    said: str = ""


class Child:
    """A process that runs as under plain Python, but for a copy of what it says on standard error.

    Standard input is our own, and so is standard output where it is a file.

    Args:
        arguments: what to type after ``python``.
        environment: its environment.
        descriptors: what it shall have of our open files; None for all that can be inherited.
        has_group: whether it is to be in a process group of its own, so that a signal to ours does not reach it.
        dumps: the folder in which TensorFlow's allocator writes down that it has run out; made, if it can be.

    Attributes:
        last: what was used of the limits that bind it, when it was last asked for.
    """

    def __init__(
        self,
        arguments: list[str],
        environment: dict[str, str],
        descriptors: tuple[int, ...] | None = (),
        *,
        has_group: bool = False,
        dumps: Path | None = None,
    ) -> None:
        self._dumps = dumps
        self._begun = time.time()
        if dumps is not None:
            with contextlib.suppress(OSError):
                dumps.mkdir(exist_ok=True)
        self._kills = host.memory_kills()
        self.last: list[limits.Use] = []
        self._errors = Copy(sys.stderr)
        self._output = None if is_own(sys.stdout, 1) else Copy(sys.stdout)
        copies = [one for one in (self._errors, self._output) if one is not None]
        try:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                env=environment,
                stdout=None if self._output is None else self._output.writer,
                stderr=self._errors.writer,
                close_fds=descriptors is not None,
                pass_fds=descriptors or (),
                preexec_fn=os.setpgrp if has_group else None,
            )
        except BaseException:
            for one in copies:
                os.close(one.writer)
            raise
        for one in copies:
            one.start()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def poll(self) -> Ended | None:
        """How it ended; None while it runs. Asked now and then, it also watches memory."""
        code = self._process.poll()
        if code is None:
            self.last = limits.uses(self._process.pid) or self.last
            return None
        said = self._errors.wait()
        if self._output is not None:
            self._output.wait()
        kills = host.memory_kills() - self._kills
        nearest = max(self.last, key=lambda use: use.share, default=None)
        found = deaths.of_memory(code, said, kills=kills, last=nearest, ran_out=self._ran_out())
        return Ended(code, found, self.last, said)

    def _ran_out(self) -> float | None:
        """How many seconds ago the allocator last wrote down that it had run out."""
        try:
            times = [path.stat().st_mtime for path in self._dumps.iterdir()] if self._dumps is not None else []
            times = [one for one in times if one >= self._begun]
        except OSError:
            return None
        return time.time() - max(times) if times else None

    def send(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def fit_window(self) -> None:
        """Give its terminal the size of ours."""
        self._errors.fit_window()
