"""A leak, as the Record has it, in words."""

from __future__ import annotations

from fitroom.core.noun import Scalar
from fitroom.units import format_bytes

_UNITS = ((172_800, 86_400, "days"), (7_200, 3_600, "hours"), (120, 60, "minutes"), (0, 1, "seconds"))


def sentence(data: dict[str, Scalar]) -> str:
    """All of it on one line: where, what, how fast, how long, what to do."""
    where = f"{data['where']}: " if data["where"] else ""
    also = f" (see {data['also']}, too)" if data.get("also") else ""
    code = f": {str(data['code']).split('    #')[0]}" if data.get("code") else ""
    return f"leak at {where}{data['what']}{also}; {speed(data)}. To do: {data['fix']}{code}"


def speed(data: dict[str, Scalar]) -> str:
    """How fast it grows, and how long memory lasts."""
    each = float(data.get("bytes_per") or 0)
    words = f"{format_bytes(round(each))} more with each {data['per']}" if each else "no growth, but what stays"
    left = data.get("seconds_left")
    return words if left is None else f"{words}, and memory is full in about {duration(float(left))}"


def duration(seconds: float) -> str:
    """A time, in the unit in which one says it."""
    for least, unit, name in _UNITS:
        if seconds >= least:
            return f"{round(seconds / unit)} {name}"
    return f"{round(seconds)} seconds"
