"""A process of Python: watched, its standard error remembered."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple

from fitroom import oom
from fitroom.devices import host, limits
from fitroom.supervisor import deaths
from fitroom.supervisor.streams import Copy, is_own


class Ended(NamedTuple):
    """How a process ended.

    Attributes:
        code: its exit code, negative for a signal.
        death: what it ran out of, if it died of memory.
        last: what was used of its nearest limit, shortly before.
    """

    code: int
    death: oom.Exhaustion | None
    last: limits.Use | None


class Child:
    """A process that runs as under plain Python, but for a copy of what it says on standard error.

    Standard input is our own, and so is standard output where it is a file.

    Args:
        arguments: what to type after ``python``.
        environment: its environment.
        descriptors: what it shall have of our open files.
    """

    def __init__(self, arguments: list[str], environment: dict[str, str], descriptors: tuple[int, ...] = ()) -> None:
        self._kills = host.memory_kills()
        self._last: limits.Use | None = None
        self._errors = Copy(sys.stderr)
        self._output = None if is_own(sys.stdout, 1) else Copy(sys.stdout)
        copies = [one for one in (self._errors, self._output) if one is not None]
        try:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                env=environment,
                stdout=None if self._output is None else self._output.writer,
                stderr=self._errors.writer,
                pass_fds=descriptors,
            )
        except BaseException:
            for one in copies:
                os.close(one.writer)
            raise
        for one in copies:
            one.start()

    def poll(self) -> Ended | None:
        """How it ended; None while it runs. Asked now and then, it also watches memory."""
        code = self._process.poll()
        if code is None:
            self._last = max(limits.uses(self._process.pid), key=lambda use: use.share, default=self._last)
            return None
        said = self._errors.wait()
        if self._output is not None:
            self._output.wait()
        kills = host.memory_kills() - self._kills
        return Ended(code, deaths.of_memory(code, said, kills=kills, last=self._last), self._last)

    def send(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def fit_window(self) -> None:
        """Give its terminal the size of ours."""
        self._errors.fit_window()
