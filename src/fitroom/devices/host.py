"""The host's memory: what this process uses, and what it may use under its control group's limit."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import NamedTuple

_UNLIMITED = 1 << 60  # control groups v1 write a huge number for "no limit"


class HostMemory(NamedTuple):
    """The host's memory now, in bytes.

    Attributes:
        total: what the machine has, or the control group's limit where that is lower.
        available: what can still be had without swapping, within that limit.
        rss: what this process holds.
        limited_by: the control group whose limit is the narrowest; None where none applies.
    """

    total: int
    available: int
    rss: int
    limited_by: str | None = None


def memory(root: Path = Path("/")) -> HostMemory:
    """The host's memory now; `root` is where ``/proc`` and ``/sys`` are found."""
    total, available, rss = _machine(root)
    limited_by = None
    for folder, limit, used in _groups(root):
        if limit < total:
            total, limited_by = limit, str(folder)
        available = min(available, max(0, limit - used))
    return HostMemory(total, available, rss, limited_by)


def _machine(root: Path) -> tuple[int, int, int]:
    """The machine's total and available memory, and what this process holds."""
    lines = (line.split() for line in _read(root / "proc/meminfo").splitlines())
    kib = {line[0]: int(line[1]) for line in lines if len(line) > 1}
    pages = _read(root / "proc/self/statm").split()
    if "MemTotal:" in kib and "MemAvailable:" in kib and len(pages) > 1:
        return kib["MemTotal:"] * 1024, kib["MemAvailable:"] * 1024, int(pages[1]) * os.sysconf("SC_PAGE_SIZE")
    import psutil  # where there is no /proc; a third of the time that `fitroom env` may take

    machine = psutil.virtual_memory()
    return machine.total, machine.available, psutil.Process().memory_info().rss


def memory_kills(root: Path = Path("/")) -> int:
    """How often the kernel has killed in this control group for memory, so far."""
    for name in ("memory.events", "memory.oom_control"):
        for folder in _folders(root):
            for line in _read(folder / name).splitlines():
                key, _, value = line.partition(" ")
                if key == "oom_kill" and value.isdigit():
                    return int(value)
    return 0


def _groups(root: Path) -> list[tuple[Path, int, int]]:
    """The control groups above this process that set a limit: folder, limit, used."""
    groups = []
    for folder in _folders(root):
        limit = _number(folder / "memory.max") or _number(folder / "memory.limit_in_bytes")
        if limit is None or limit >= _UNLIMITED:
            continue
        used = _number(folder / "memory.current") or _number(folder / "memory.usage_in_bytes") or 0
        groups.append((folder, limit, max(0, used - _reclaimable(folder))))
    return groups


def _folders(root: Path) -> list[Path]:
    """This process' control group and those above it, version 2 or 1, innermost first."""
    folders = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            top = root / "sys/fs/cgroup"
        elif "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup/memory"
        else:
            continue
        inner = top / path.lstrip("/")
        # In a container the path may be the host's, which is not visible here: then the top is our own group.
        while inner != top and not inner.is_dir():
            inner = inner.parent
        folders += [inner, *(parent for parent in inner.parents if parent == top or top in parent.parents)]
    return folders


def _reclaimable(folder: Path) -> int:
    """Page cache that the kernel gives back before it kills: not really used."""
    for line in _read(folder / "memory.stat").splitlines():
        key, _, value = line.partition(" ")
        if key in ("inactive_file", "total_inactive_file") and value.isdigit():
            return int(value)
    return 0


def _number(path: Path) -> int | None:
    text = _read(path).strip()
    return int(text) if text.isdigit() else None


def _read(path: Path) -> str:
    try:
        with path.open(encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def system() -> str:
    """The operating system, its release and the machine's kind; says so where it is Linux inside Windows."""
    if not hasattr(os, "uname"):
        return sys.platform
    name = os.uname()
    wsl = " (WSL)" if "microsoft" in name.release.lower() else ""
    return f"{name.sysname} {name.release} {name.machine}{wsl}"


def trim() -> None:
    """Have C's allocator give back what it keeps of freed memory, where it can (glibc)."""
    import ctypes
    import gc

    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
