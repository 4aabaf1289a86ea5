"""What an attempt's events say of it."""

from __future__ import annotations

from typing import NamedTuple

from fitroom.core import Event
from fitroom.devices import limits
from fitroom.supervisor.less import Host


class Place(NamedTuple):
    """How far a script had come when it was saved."""

    training: int = -1
    finished: bool = False
    epoch: int = 0
    step: int = 0


def place(event: Event) -> Place:
    """Where a script was saved, if that is what happened."""
    if event.kind != "checkpoint":
        return Place()
    data = event.data
    return Place(int(data["training"] or 0), bool(data["finished"]), int(data["epoch"] or 0), int(data["step"] or 0))


def steps(events: list[Event]) -> int:
    """How many steps an attempt made."""
    return max((int(event.data["steps"] or 0) for event in events if event.kind == "progress"), default=0)


def host(events: list[Event], last: list[limits.Use]) -> Host | None:
    """The limit of the host's that left the least room to a training, and what was used of it before."""
    before = next((event.data for event in events if event.kind == "training"), {})
    found = [Host(use.limit, int(before.get(use.what) or 0), use.what == limits.ADDRESS_SPACE) for use in last]
    return min(found, key=lambda host: host.room, default=None)
