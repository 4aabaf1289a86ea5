"""Was it memory that a process died of? Only on evidence; anything else is the script's own business."""

from __future__ import annotations

import signal

from fitroom import oom
from fitroom.core import Resource
from fitroom.devices.limits import NEARLY_ALL, Use
from fitroom.units import format_bytes

ABORTS = (signal.SIGABRT, signal.SIGSEGV, signal.SIGILL, signal.SIGTRAP, signal.SIGBUS)
_WHY = {"bad-alloc": 600, "allocator-check": 16_000}  # what an abort for memory says, so near its end (a stack follows)
_SHORTLY = 3.0  # seconds


def of_memory(
    code: int, said: str, *, kills: int = 0, last: Use | None = None, ran_out: float | None = None
) -> oom.Exhaustion | None:
    """What a process that ended like this ran out of; None where nothing proves that it was memory.

    Args:
        code: its exit code, as a shell (137) or `subprocess` (-9) gives it.
        said: the end of its standard error.
        kills: by how much the control group's ``oom_kill`` counter rose while it ran.
        last: what was used of its nearest limit shortly before it ended.
        ran_out: how many seconds before its end TensorFlow's allocator last wrote down that it had run out.
    """
    number = -code if code < 0 else code - 128
    if number in ABORTS:
        for face in oom.FACES:
            last_words = said[-_WHY.get(face.code, 0) :] if face.code in _WHY else ""
            if match := face.pattern.search(last_words):
                return oom.from_text(last_words[last_words.rfind("\n", 0, match.start()) + 1 :])
        if ran_out is not None and ran_out <= _SHORTLY:
            # Some operations do not look whether they got memory.
            words = f"exit code {code}, {ran_out:.1f} s after the allocator had run out of memory"
            return oom.Exhaustion(Resource.HOST_MEMORY, "crash", evidence=words)
    if number == signal.SIGKILL:
        # Anyone may send it.
        if kills > 0:
            words = f"exit code {code}, and the kernel's oom_kill counter rose by {kills}"
            return oom.Exhaustion(Resource.HOST_MEMORY, "sigkill", evidence=words)
        if last is not None and last.share >= NEARLY_ALL:
            used, limit = format_bytes(last.used), format_bytes(last.limit)
            words = f"exit code {code} with {used} of {limit} in use ({last.what})"
            return oom.Exhaustion(Resource.HOST_MEMORY, "sigkill", evidence=words)
    return None
