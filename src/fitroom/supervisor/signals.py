"""Signals that are meant for the script: waited for, and told apart from those that it gets anyway."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FORWARDED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
_BY_KERNEL = 128  # the kernel itself sent it: a key on the terminal, which reaches every process there


class Signals:
    """The signals that arrive while a script runs, one after the other."""

    def __init__(self) -> None:
        ignored = {number for number in _FORWARDED if signal.getsignal(number) is signal.SIG_IGN}
        self._awaited = (_FORWARDED - ignored) | {signal.SIGCHLD, signal.SIGWINCH}

    @staticmethod
    def are_keys() -> bool:
        """Whether keys on a terminal reach this process: then they must reach the script in the same way."""
        try:
            with Path("/dev/tty").open("rb", buffering=0) as terminal:
                return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
        except OSError:  # no terminal
            return False

    @contextmanager
    def held(self) -> Iterator[Signals]:
        """Hold them back from their usual effect on this process. A child has to let them through again itself."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, self._awaited)
        try:
            yield self
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def wait(self, seconds: float) -> tuple[signal.Signals, bool] | None:
        """The next one, and whether the script has got it already; None where none comes in that time."""
        found = signal.sigtimedwait(self._awaited, seconds)
        return None if found is None else (signal.Signals(found.si_signo), found.si_code == _BY_KERNEL)


def let_through() -> None:
    """In the child: undo `Signals.held`, which a new process inherits."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED | {signal.SIGCHLD, signal.SIGWINCH})
