"""The pocket device: TensorFlow's GPU allocator on the CPU, with a limit.

It runs out of memory for real, with the real error and the real allocator's dump, on a machine without a GPU. It has
to be asked for before TensorFlow is imported, because the allocator is chosen when TensorFlow starts. The host's own
tensors (a dataset held in memory, say) share its arena, and so do logical CPU devices.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from fitroom.errors import DeviceError, UsageError
from fitroom.units import MIB, format_bytes, parse_bytes

SWITCH = "TF_CPU_ALLOCATOR_USE_BFC"
LIMIT = "TF_CPU_BFC_MEM_LIMIT_IN_MB"

_GRANULE = 256  # the allocator rounds every request up to this
_FIRST_REGION = 2 * MIB  # what its arena starts with


class Use(NamedTuple):
    """Bytes in use on the device, now and at the peak since the last reset."""

    current: int
    peak: int


def environment(limit: int | str) -> dict[str, str]:
    """The environment variables that give a process of its own the pocket device with `limit` bytes.

    Example:
        >>> environment("600MiB")
        {'TF_CPU_ALLOCATOR_USE_BFC': '1', 'TF_CPU_BFC_MEM_LIMIT_IN_MB': '600'}
    """
    mib = parse_bytes(limit) // MIB
    if mib < 1:
        raise UsageError("A pocket device needs room", received=str(limit), expected="at least 1 MiB")
    return {SWITCH: "1", LIMIT: str(mib)}


def limit() -> int | None:
    """The limit that the environment sets for this process; None where it has no pocket device."""
    if os.environ.get(SWITCH, "").lower() not in ("1", "true"):
        return None
    value = os.environ.get(LIMIT, "")
    return int(value) * MIB if value.isdigit() and int(value) > 0 else None


def enable(size: int | str) -> None:
    """Give this process the pocket device.

    Raises:
        DeviceError: if TensorFlow is loaded already, without it or with another limit.
    """
    wanted = environment(size)
    if "tensorflow" in sys.modules:
        now = limit()
        if now is None or now != int(wanted[LIMIT]) * MIB:
            raise DeviceError(
                "The pocket device must be set up before TensorFlow is imported",
                received="TensorFlow loaded " + (f"with a limit of {format_bytes(now)}" if now else "without it"),
                expected=f"a fresh process, or {SWITCH}=1 {LIMIT}={wanted[LIMIT]} in the environment",
                hint=f"{SWITCH}=1 {LIMIT}={wanted[LIMIT]} python your_script.py",
            )
    os.environ.update(wanted)


def use() -> Use:
    """What is in use on the pocket device."""
    import tensorflow as tf

    # On some CPUs an allocator without a limit counts, too, and says that nothing is in use.
    if limit() is None:
        raise DeviceError(
            "This process has no pocket device",
            expected=f"{SWITCH}=1 and {LIMIT} set before TensorFlow started",
        )
    info = tf.config.experimental.get_memory_info("CPU:0")
    return Use(info["current"], info["peak"])


def reset_peak() -> None:
    """Start counting the peak anew."""
    import tensorflow as tf

    tf.config.experimental.reset_memory_stats("CPU:0")


@contextmanager
def ballast(free: int | str) -> Iterator[None]:
    """Hold all of the pocket device but `free` bytes, so that one process can try many budgets.

    Exact to the allocator's granule of 256 bytes. Quick where the arena is fresh or in one piece; where it is
    fragmented, each piece may cost the allocator's ten seconds of waiting.

    Raises:
        UsageError: if less than that is free already.
    """
    import tensorflow as tf

    room, arena = parse_bytes(free), limit()
    if arena is None:
        raise DeviceError("This process has no pocket device", expected=f"{SWITCH}=1 and {LIMIT} set")
    if arena - use().current < room:
        raise UsageError(
            "Less is free on the pocket device than the ballast should leave",
            received=format_bytes(arena - use().current),
            expected=f"at least {format_bytes(room)}",
        )

    def hold(size: int) -> object:
        # Empty takes the memory without touching its pages: a ballast costs no RAM.
        return tf.raw_ops.Empty(shape=[size], dtype=tf.uint8, init=False)

    if use().peak <= _FIRST_REGION:
        # A fresh arena grows region by region, and regions never merge. One large request makes one region of it,
        # so that what the ballast leaves free is in one piece.
        with contextlib.suppress(tf.errors.ResourceExhaustedError):  # it had grown already: somebody reset the peak
            hold(arena - 2 * _FIRST_REGION)
    held: list[object] = []
    if arena - use().current - room >= _FIRST_REGION:
        # Best fit: these land in the leftovers of the small first region and fill it up.
        held += [hold(_FIRST_REGION >> halving) for halving in range(1, 14)]
    largest = arena
    while (spare := arena - use().current - room) >= _GRANULE and largest >= _GRANULE:
        # A chunk is split only for a request of at most half its size; otherwise it would be taken whole.
        rest = arena - use().current
        request = min(spare, largest) if 2 * spare <= rest else min(rest // 2, spare, largest)
        try:
            held.append(hold(request // _GRANULE * _GRANULE))
        except tf.errors.ResourceExhaustedError:  # the free memory is in pieces; costs ten seconds
            largest = request // 2
        if use().current > arena - room:  # took more than asked: a chunk that was not split
            held.pop()
            largest = request // 2
    try:
        yield
    finally:
        held.clear()
