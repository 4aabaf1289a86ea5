"""How near a process is to the limits of the host's memory."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fitroom.devices import host

NEARLY_ALL = 0.9  # of a limit: a kill that follows was for memory


class Use(NamedTuple):
    """What is used of a limit, in bytes.

    Attributes:
        what: what sets the limit.
        limit: what there is.
        used: how much of it is used, by everyone whom it binds.
    """

    what: str
    limit: int
    used: int

    @property
    def share(self) -> float:
        """How much of it is used; 1.0 is all."""
        return self.used / self.limit


def uses(pid: int, root: Path = Path("/")) -> list[Use]:
    """What a process and its neighbours use of each limit that binds it; nothing once it has ended."""
    try:
        status = (root / f"proc/{pid}/status").read_text()
    except OSError:
        return []
    return [*_own(pid, status), _shared(root)]


def _own(pid: int, status: str) -> Iterator[Use]:
    lines = (line.split() for line in status.splitlines())
    kib = {line[0]: int(line[1]) for line in lines if len(line) == 3 and line[2] == "kB"}
    for which, field, flag in ((resource.RLIMIT_AS, "VmSize:", "-v"), (resource.RLIMIT_DATA, "VmData:", "-d")):
        try:
            limit, _ = resource.prlimit(pid, which)
        except OSError:  # it has ended, or has become another user's
            continue
        if limit > 0 and field in kib:  # -1 is "no limit"
            yield Use(f"ulimit {flag}", limit, kib[field] * 1024)


def _shared(root: Path) -> Use:
    memory = host.memory(root)
    what = "the control group" if memory.limited_by else "the machine"
    return Use(what, memory.total, memory.total - memory.available)
