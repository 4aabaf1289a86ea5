"""What is said of memory that was watched."""

from __future__ import annotations

from collections.abc import Callable

from fitroom.units import format_bytes


def closing(peak: Callable[[str], float | None], waits: tuple[str, str] | None) -> str:
    """The line at the end of a training that was watched.

    Args:
        peak: the largest value that a series had, by name; None where it had none.
        waits: what the training waited for: the evidence, and what to do.
    """
    parts = []
    for name, what, limit in (
        ("device_peak", "device", "device_limit"),
        ("rss", "process", ""),
        ("host", "host", "host_limit"),
    ):
        used, most = peak(name), peak(limit)
        if used is not None:
            parts.append(f"{what} {format_bytes(int(used))}" + (f" of {format_bytes(int(most))}" if most else ""))
    lines = [f"memory at its peak: {', '.join(parts) or 'nothing was measured'}"]
    if waits is not None:
        lines += [f"  waits   {waits[0]}", f"  do      {waits[1]}"]
    return "\n".join(lines)
