"""Whether memory is about to run out: what is used of a limit, and how fast it grows. Pure."""

from __future__ import annotations

from collections import deque

from fitroom.devices.limits import NEARLY_ALL, Use
from fitroom.units import format_bytes

_KILLING = ("the control group", "the machine")  # limits beyond which the kernel kills; others give an error first
_WINDOW = 1.0  # seconds over which growth is measured
_AHEAD = 2.0  # seconds to look ahead


class Foresight:
    """Watches what is used of the limits that kill."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[float, int]]] = {}

    def look(self, uses: list[Use], now: float) -> str | None:
        """Why memory is about to run out, in words; None while it is not."""
        found = None
        for use in uses:
            if use.what not in _KILLING:
                continue
            seen = self._seen.setdefault(use.what, deque())
            while seen and now - seen[0][0] > _WINDOW:
                seen.popleft()
            seconds = now - seen[0][0] if seen else 0.0
            growth = (use.used - seen[0][1]) / seconds if seconds > _WINDOW / 3 else 0.0
            seen.append((now, use.used))
            if growth > 0 and use.share >= NEARLY_ALL and use.used + growth * _AHEAD >= use.limit:
                used, limit = format_bytes(use.used), format_bytes(use.limit)
                found = f"{used} of {limit} in use ({use.what}), and {format_bytes(int(growth))} more every second"
        return found
