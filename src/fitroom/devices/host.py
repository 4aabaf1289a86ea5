"""The host's memory: what this process uses, and what it may use under its control group's limit."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import psutil

_UNLIMITED = 1 << 60  # control groups v1 write a huge number for "no limit"


@dataclass(frozen=True)
class HostMemory:
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


@dataclass(frozen=True)
class _Group:
    path: Path
    limit: int
    used: int


def memory(root: Path = Path("/")) -> HostMemory:
    """The host's memory now; `root` is where ``/proc`` and ``/sys`` are found."""
    machine = psutil.virtual_memory()
    total, available, limited_by = machine.total, machine.available, None
    for group in _groups(root):
        if group.limit < total:
            total, limited_by = group.limit, str(group.path)
        available = min(available, max(0, group.limit - group.used))
    return HostMemory(total, available, psutil.Process().memory_info().rss, limited_by)


def memory_kills(root: Path = Path("/")) -> int:
    """How often the kernel has killed in this control group for memory, so far."""
    for name in ("memory.events", "memory.oom_control"):
        for folder in _folders(root):
            for line in _read(folder / name).splitlines():
                key, _, value = line.partition(" ")
                if key == "oom_kill" and value.isdigit():
                    return int(value)
    return 0


def _groups(root: Path) -> list[_Group]:
    """The control groups above this process that set a limit."""
    groups = []
    for folder in _folders(root):
        limit = _number(folder / "memory.max") or _number(folder / "memory.limit_in_bytes")
        if limit is None or limit >= _UNLIMITED:
            continue
        used = _number(folder / "memory.current") or _number(folder / "memory.usage_in_bytes") or 0
        groups.append(_Group(folder, limit, max(0, used - _reclaimable(folder))))
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


def is_wsl() -> bool:
    """Whether this is Linux inside Windows."""
    return "microsoft" in os.uname().release.lower() if hasattr(os, "uname") else False
