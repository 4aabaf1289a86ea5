"""What can be counted at once, without a walk through the heap: some microseconds for all of it.

RSS moves with whatever C's allocator keeps for later; what malloc itself says is in use does not. So growth is judged
by the latter, and by the device's allocator, and RSS tells only what is left when both stand still.
"""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any, NamedTuple

from fitroom.devices import limits, meter


class Counts(NamedTuple):
    """The counters at one moment, in bytes; 0 where there is nothing that counts.

    Attributes:
        device: in use on the device that trains, by its allocator.
        peak: the most that was.
        heap: what malloc has handed out and not got back, without what the watch itself keeps.
        rss: what the process holds of the machine's memory.
    """

    device: int
    peak: int
    heap: int
    rss: int


class Counters:
    """Reads the counters of this process.

    Attributes:
        own: bytes of the heap that the watch itself keeps: some MiB after a look, which nothing of the user's took.
    """

    def __init__(self, budget: int | None = None) -> None:
        self._pid = os.getpid()
        self._statm = _open("/proc/self/statm")
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._meter = meter.find(budget)
        self.own = 0

    def read(self) -> Counts:
        """All of them, now."""
        device, peak = (self._meter.current(), self._meter.peak()) if self._meter is not None else (0, 0)
        return Counts(device, peak, max(0, heap_in_use() - self.own), self._rss())

    @property
    def device_limit(self) -> int | None:
        """What the device's allocator may take; None where it does not count."""
        return self._meter.limit if self._meter is not None else None

    def host_room(self) -> tuple[int, int]:
        """The narrowest of the host's limits: how much of it is left, and how much it is."""
        uses = limits.uses(os.getpid())
        tightest = min(uses, key=lambda use: use.limit - use.used, default=None)
        return (max(0, tightest.limit - tightest.used), tightest.limit) if tightest is not None else (0, 0)

    def _rss(self) -> int:
        if self._statm is None:
            return 0
        if os.getpid() != self._pid:  # a forked process would read its parent's
            self._statm, self._pid = _open("/proc/self/statm"), os.getpid()
            return self._rss()
        return int(os.pread(self._statm, 96, 0).split()[1]) * self._page


def _open(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


# --- C's allocator ------------------------------------------------------------------------------------------------


class _MallInfo(ctypes.Structure):
    """``struct mallinfo2`` of glibc 2.33 and newer."""

    _fields_ = [  # how ctypes wants it
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"
        )
    ]  # fmt: skip


@functools.cache
def _mallinfo() -> Any:
    try:
        function = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):  # another C library, or an old one
        return None
    function.restype = _MallInfo
    return function


def heap_in_use() -> int:
    """What malloc has handed out, in bytes; 0 where it does not tell."""
    function = _mallinfo()
    if function is None:
        return 0
    info = function()
    return int(info.uordblks + info.hblkhd)


def heap_kept() -> int:
    """What malloc has got back and keeps, in bytes; 0 where it does not tell."""
    function = _mallinfo()
    return int(function().fordblks) if function is not None else 0


def trim() -> bool:
    """Have malloc give back what it keeps; False where it cannot."""
    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (AttributeError, OSError):
        return False
