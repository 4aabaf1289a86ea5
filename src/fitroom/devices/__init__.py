"""What memory there is: one call answers for any device.

asked for  GPU   → Budget
---------  ----    ------------------------------------------------------------------
a number   yes     that number on the GPU, by TensorFlow's memory limit
a number   no      that number on the pocket device
nothing    yes     what is free on the GPU now, less TensorFlow's reserve
nothing    no      what the host, or its control group, still has; watched, not enforced
"""

from __future__ import annotations

import sys

from fitroom.core import Budget
from fitroom.devices import gpu, host, pocket
from fitroom.errors import DeviceError, UsageError
from fitroom.units import MIB, format_bytes, parse_bytes

__all__ = ["budget", "enforce", "gpu", "host", "pocket"]


def budget(asked: int | str | None = None) -> Budget:
    """How much may be used here? Looks only; `enforce` acts.

    Args:
        asked: the limit that the user wants, in bytes or as text such as "8GiB"; None for what there is.

    Raises:
        UsageError: if less than 1 MiB is asked for, or more than the device has.
    """
    gpus = gpu.visible()
    started = "tensorflow" in sys.modules
    if asked is not None:
        wanted = _whole_mib(parse_bytes(asked))
        if gpus:
            smallest = min(gpus, key=lambda one: one.total)
            _check(wanted, smallest.total, smallest.name)
            return Budget(wanted, "GPU:0", "gpu", enforced=not started, origin="asked")
        _check(wanted, host.memory().total, "this host")
        fits = pocket.limit() is not None and (pocket.limit() or 0) <= wanted * MIB
        return Budget(wanted, "CPU:0", "pocket", enforced=fits or not started, origin="asked")
    if gpus:
        fullest = min(gpus, key=lambda one: one.usable)
        return Budget(max(1, fullest.usable // MIB), f"GPU:{fullest.number}", "gpu", enforced=True, origin="free")
    arena = pocket.limit()
    if arena is not None:
        return Budget(arena // MIB, "CPU:0", "pocket", enforced=True, origin="asked")
    return Budget(max(1, host.memory().available // MIB), "CPU:0", "host", enforced=False, origin="free")


def enforce(wish: Budget) -> Budget:
    """Have the allocator keep to `wish` where it still can; the Budget returned says whether it does."""
    enforced = wish.enforced
    if wish.kind == "gpu" and wish.origin == "asked":
        enforced = gpu.set_limit(wish.mib)
    elif wish.kind == "pocket" and pocket.limit() is None:
        try:
            pocket.enable(wish.bytes)
            enforced = True
        except DeviceError:
            enforced = False
    return Budget(wish.mib, wish.device, wish.kind, enforced, wish.origin)


def _whole_mib(count: int) -> int:
    if count < MIB:
        raise UsageError("A budget is counted in whole MiB", received=format_bytes(count), expected="at least 1 MiB")
    return count // MIB


def _check(mib: int, total: int, name: str) -> None:
    if mib * MIB > total:
        raise UsageError(
            "The budget is larger than the memory there is",
            received=format_bytes(mib * MIB),
            expected=f"at most {format_bytes(total)} ({name})",
        )
