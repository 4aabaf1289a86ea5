"""Was it memory that a process died of? Only on evidence; anything else is the script's own business."""

from __future__ import annotations

import signal

from fitroom import oom
from fitroom.core import Resource
from fitroom.devices.limits import NEARLY_ALL, Use
from fitroom.units import format_bytes

_LAST_WORDS = 6000  # characters: an abort says why at the very end
_ABORTS = (signal.SIGABRT, signal.SIGSEGV, signal.SIGILL, signal.SIGTRAP)


def of_memory(code: int, said: str, *, kills: int = 0, last: Use | None = None) -> oom.Exhaustion | None:
    """What a process that ended like this ran out of; None where nothing proves that it was memory.

    Args:
        code: its exit code, as a shell (137) or `subprocess` (-9) gives it.
        said: the end of its standard error.
        kills: by how much the control group's ``oom_kill`` counter rose while it ran.
        last: what was used of its nearest limit shortly before it ended.
    """
    number = -code if code < 0 else code - 128
    if number in _ABORTS:
        # An abort says why. An error that Python raised earlier, and that the script survived, is not why.
        found = oom.from_text(said[-_LAST_WORDS:])
        if found is not None and found.certain and found.is_memory:
            return found
    if number == signal.SIGKILL:
        if kills > 0:
            words = f"exit code {code}, and the kernel's oom_kill counter rose by {kills}"
            return oom.Exhaustion(Resource.HOST_MEMORY, "sigkill", evidence=words)
        if last is not None and last.share >= NEARLY_ALL:
            words = (
                f"exit code {code} with {format_bytes(last.used)} of {format_bytes(last.limit)} in use ({last.what})"
            )
            return oom.Exhaustion(Resource.HOST_MEMORY, "sigkill", evidence=words)
    return None
