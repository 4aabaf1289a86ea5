"""What a child process says: passed on to our own stream, and its end remembered."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import sys
import termios
import threading
import tty
from typing import TextIO

_REMEMBERED = 64 * 1024  # how much of the end is kept
_LINGER = 0.5  # seconds to wait for what is still on its way when the process has ended


class Copy:
    """One stream of a child: what it writes to `writer` arrives at `stream`.

    Where `stream` is a terminal, the child sees one, too, so that progress bars look as they would.

    Args:
        stream: standard output or standard error as Python sees it, which in a notebook is no file; None where it is
            closed.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._descriptor = descriptor(stream)
        self._is_terminal = self._descriptor is not None and os.isatty(self._descriptor)
        self._file: int | None = None
        if self._descriptor is not None and stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            # A file is given as it is, so that lines keep their order in it; its end is read afterwards.
            self._file = os.lseek(self._descriptor, 0, os.SEEK_END)
            self.writer = os.dup(self._descriptor)
        elif self._is_terminal:
            self._reader, self.writer = os.openpty()
            tty.setraw(self.writer)  # the terminal behind ours does what a terminal does
            self.fit_window()
        else:
            self._reader, self.writer = os.pipe()
        self._said = bytearray()
        self._thread = threading.Thread(target=self._pass_on, name="fitroom-copy", daemon=True)

    def start(self) -> None:
        """Begin to pass on; called once the child has its end."""
        os.close(self.writer)
        if self._file is None:
            self._thread.start()

    def wait(self) -> str:
        """The end of what the child said, once it has ended."""
        if self._file is not None:
            return self._end_of_file(self._file)
        self._thread.join(_LINGER)  # a process that it left behind may hold the stream open
        return self._said.decode(errors="replace")

    def _end_of_file(self, begin: int) -> str:
        try:
            with open(f"/proc/self/fd/{self._descriptor}", "rb") as file:  # noqa: PTH123 # an open file, by its number
                file.seek(max(begin, os.fstat(file.fileno()).st_size - _REMEMBERED))
                return file.read().decode(errors="replace")
        except OSError:  # not ours to read
            return ""

    def fit_window(self) -> None:
        """Give the child's terminal the size of ours."""
        if self._is_terminal and self._descriptor is not None:
            size = fcntl.ioctl(self._descriptor, termios.TIOCGWINSZ, bytes(8))
            fcntl.ioctl(self._reader, termios.TIOCSWINSZ, size)

    def _pass_on(self) -> None:
        is_heard = True
        while True:
            try:
                content = os.read(self._reader, 65536)
            except OSError:  # a terminal whose other end is closed
                break
            if not content:
                break
            self._said += content
            del self._said[:-_REMEMBERED]
            try:
                if is_heard:
                    self._write(content)
            except OSError:  # nobody listens any more: the child need not care
                is_heard = False
        os.close(self._reader)

    def _write(self, content: bytes) -> None:
        if self._stream is None:
            return
        if self._descriptor is None:
            self._stream.write(content.decode(errors="replace"))
            self._stream.flush()
            return
        while content:
            content = content[os.write(self._descriptor, content) :]


def descriptor(stream: TextIO | None) -> int | None:
    """The stream's file descriptor; None where it is no file, as in a notebook."""
    if stream is None:
        return None
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return stream.fileno()
    return None


def is_own(stream: TextIO | None, number: int) -> bool:
    """Whether a child that inherits descriptor `number` writes where `stream` does."""
    return stream is None or (descriptor(stream) == number and stream in (sys.__stdout__, sys.__stderr__))
