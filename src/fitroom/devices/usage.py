"""What a process and those it started use of the host: memory, cores, disk, network. As far as one may look."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from fitroom.devices import host

TYPE_CHECKING = False

if TYPE_CHECKING:
    import psutil

_Spent = tuple["float | None", "float | None", "float | None"]  # cores' seconds, bytes read, bytes written

_FAMILY = 10.0  # seconds between two looks at which processes it has started: that means going through all


class Counters(NamedTuple):
    """What has been counted so far; None where nobody tells.

    Attributes:
        time: when, on a clock that does not jump.
        cpu: seconds of cores, of all processes.
        read: bytes that came from a disk.
        written: bytes that went to one.
        received: bytes from the network, by all processes of the machine or container.
        sent: bytes to the network.
        stalled: seconds in which somebody on the machine waited for a disk.
    """

    time: float
    cpu: float | None = None
    read: float | None = None
    written: float | None = None
    received: float | None = None
    sent: float | None = None
    stalled: float | None = None


def rates(before: Counters, after: Counters) -> dict[str, float]:
    """What was used per second in between, by name; what is not known is left out."""
    seconds = after.time - before.time
    if seconds <= 0:
        return {}
    names = ("cpu", "read", "written", "received", "sent", "stalled")
    pairs = zip(names, before[1:], after[1:], strict=True)
    # A machine's counters may begin anew: then there is less than before.
    return {name: max(0.0, b - a) / seconds for name, a, b in pairs if a is not None and b is not None}


def cores(root: Path = Path("/")) -> float:
    """How many cores there are for this process: by affinity, and by the control group's quota."""
    found = float(len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else float(os.cpu_count() or 1)
    top = root / "sys/fs/cgroup"
    for quota, period in ((top / "cpu.max", None), (top / "cpu/cpu.cfs_quota_us", top / "cpu/cpu.cfs_period_us")):
        with suppress(OSError, ValueError, IndexError, ZeroDivisionError):
            words = quota.read_text().split() + (period.read_text().split() if period is not None else [])
            if int(words[0]) > 0:
                found = min(found, int(words[0]) / int(words[1]))
    return found


class Usage:
    """Looks at a process, time after time.

    Args:
        pid: the process.
        root: where ``/proc`` is found.
    """

    def __init__(self, pid: int, root: Path = Path("/")) -> None:
        self.pid = pid
        self.cores = cores(root)
        self._root = root
        self._family: list[psutil.Process] = []
        self._looked = -_FAMILY
        self._before: Counters | None = None
        self._spent: dict[psutil.Process, _Spent] = {}  # by each of them, when it was last looked at
        self._total = [0.0, 0.0, 0.0]  # by all of them since they were first seen: cores, bytes read and written

    @property
    def pids(self) -> set[int]:
        """The process and those it has started, when they were last looked for."""
        return {self.pid, *(one.pid for one in self._family)}

    def find_family(self) -> None:
        """Look for the processes that it has started."""
        import psutil

        self._looked = time.monotonic()
        with suppress(psutil.Error, OSError):
            first = psutil.Process(self.pid)
            self._family = [first]
            self._family += first.children(recursive=True)  # which may be forbidden

    def look(self) -> dict[str, float]:
        """What is used now, by name: bytes of memory, and rates since the last look."""
        rss, counters = self._count()
        memory = host.memory(self._root)
        values = {"host": float(memory.total - memory.available), "host_limit": float(memory.total)}
        values["cores"] = self.cores
        if rss is not None:
            values["rss"] = float(rss)
        if self._before is not None:
            values |= rates(self._before, counters)
        self._before = counters
        return values

    def _count(self) -> tuple[int | None, Counters]:
        import psutil

        now = time.monotonic()
        if now - self._looked >= _FAMILY:
            self.find_family()
        rss: list[int] = []
        spent: dict[psutil.Process, _Spent] = {}
        for process in self._family:
            # What psutil raises for a file in /proc that is empty or unlike Linux' is one of the latter.
            with suppress(psutil.Error, OSError, RuntimeError, ValueError), process.oneshot():
                rss.append(process.memory_info().rss)
                times = process.cpu_times()
                spent[process] = times.user + times.system, None, None
                files = process.io_counters()  # which may be forbidden
                spent[process] = times.user + times.system, files.read_bytes, files.write_bytes
        cpu, read, written = self._add_up(spent)
        received, sent = self._network()
        return (sum(rss) if rss else None), Counters(now, cpu, read, written, received, sent, self._stalled())

    def _add_up(self, spent: dict[psutil.Process, _Spent]) -> tuple[float | None, ...]:
        """What was spent since each was first seen: what it did before, and that it is gone, are no news of now."""
        for process in spent.keys() & self._spent.keys():
            for number, (before, after) in enumerate(zip(self._spent[process], spent[process], strict=True)):
                self._total[number] += max(0.0, after - before) if before is not None and after is not None else 0.0
        self._spent = spent
        known = [any(one[number] is not None for one in spent.values()) for number in range(3)]
        return tuple(total if is_known else None for total, is_known in zip(self._total, known, strict=True))

    def _network(self) -> tuple[float | None, float | None]:
        rows = list(self._interfaces())
        return (sum(one for one, _ in rows), sum(one for _, one in rows)) if rows else (None, None)

    def _interfaces(self) -> Iterator[tuple[int, int]]:
        with suppress(OSError, ValueError, IndexError):
            for line in (self._root / "proc/net/dev").read_text().splitlines()[2:]:
                name, _, numbers = line.partition(":")
                if name.strip() != "lo":
                    counts = numbers.split()
                    yield int(counts[0]), int(counts[8])

    def _stalled(self) -> float | None:
        """The kernel's own account of waiting for disks; where it has none, the time cores idled for them."""
        with suppress(OSError, ValueError, IndexError):
            line = (self._root / "proc/pressure/io").read_text().splitlines()[0]
            return int(line.rpartition("total=")[2]) / 1e6
        with suppress(OSError, ValueError, IndexError):
            line = (self._root / "proc/stat").read_text().splitlines()[0]
            return int(line.split()[5]) / os.sysconf("SC_CLK_TCK")
        return None
