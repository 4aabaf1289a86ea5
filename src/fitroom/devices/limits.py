"""How near a process is to the limits of the host's memory."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fitroom.devices import host

ADDRESS_SPACE = "ulimit -v"
NEARLY_ALL = 0.9  # of a limit: a kill that follows was for memory
_AS, _DATA = resource.RLIMIT_AS, resource.RLIMIT_DATA


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
    """What a process and its neighbours use of each limit that binds it; nothing once it is ending."""
    try:
        lines = [line.split() for line in (root / f"proc/{pid}/status").read_text().splitlines()]
    except OSError:
        return []
    kib = {line[0]: int(line[1]) for line in lines if len(line) == 3 and line[2] == "kB"}
    return [*_own(pid, kib), _shared(root)] if kib else []


def _own(pid: int, kib: dict[str, int]) -> Iterator[Use]:
    for which, field, what in ((_AS, "VmSize:", ADDRESS_SPACE), (_DATA, "VmData:", "ulimit -d")):
        try:
            limit, _ = resource.prlimit(pid, which)
        except OSError:  # it has ended, or has become another user's
            continue
        if limit > 0 and field in kib:  # -1 is "no limit"
            yield Use(what, limit, kib[field] * 1024)


def _shared(root: Path) -> Use:
    memory = host.memory(root)
    what = "the control group" if memory.limited_by else "the machine"
    return Use(what, memory.total, memory.total - memory.available)
