"""What is known when a leak's cause is looked for: looks at the heap, what happened between them, who holds what."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from fitroom.leaks.counters import Counts
from fitroom.leaks.happenings import STEPS, Happenings, Made
from fitroom.leaks.places import Place
from fitroom.leaks.sizes import Size
from fitroom.leaks.trends import Trend

_LEAST = 3  # looks between which something has to grow
_WRAPPED = ("model", "compiled", "program", "function")  # the guard makes functions for each of them
_OURS = 0.25  # of what the user's line made: what fitroom made meanwhile may be what is left behind


class Look(NamedTuple):
    """One look at the whole heap.

    Attributes:
        turn, seconds: when.
        kinds, made, traces: how often what had happened by then.
        before, after: the counters before and after a collection of garbage.
        trimmed: RSS after malloc had given back what it kept; None where that was not tried.
        collections: how often Python had collected all garbage by itself.
        tensors: how many eager tensors there were; objects: how many of Python's.
        ours: how many things of each kind fitroom had made for itself by then.
    """

    turn: int
    seconds: float
    kinds: Counter[str]
    made: Counter[Made]
    traces: dict[object, int]
    before: Counts
    after: Counts
    trimmed: int | None
    collections: int
    tensors: int
    objects: int
    ours: Counter[str]

    @property
    def garbage(self) -> int:
        """What the collection gave back, on the device and the host."""
        return max(0, self.before.heap - self.after.heap) + max(0, self.before.device - self.after.device)


class Held(NamedTuple):
    """A container, or an array, of the user's that grows.

    Attributes:
        name: the user's for it.
        lines: where it is added to, likeliest first.
        length: elements; 0 for an array.
        grown: how many elements were added, since it is watched.
        size: what those hold.
        turns: how many turns that took; per_kind: how often what happened meanwhile.
        words: what its elements are, such as "tensors"; of an array, what it is.
        is_bounded: whether it cannot grow beyond a bound that is set.
        is_mapping: whether its elements have keys.
    """

    name: str
    lines: tuple[Place, ...]
    length: int
    grown: int
    size: Size
    turns: int
    per_kind: Counter[str]
    words: str
    is_bounded: bool = False
    is_mapping: bool = False

    @property
    def short_name(self) -> str:
        """The last part of its name."""
        return self.name.rsplit(".", 1)[-1].strip("()")

    def __str__(self) -> str:
        more = f", {self.grown} more since it is watched" if self.length else ""
        return f"{self.name} holds {f'{self.length} ' if self.length else ''}{self.words}{more}"

    def with_more(self, other: Held) -> Held:
        """The same, with another container of the same name."""
        longest = self if self.turns >= other.turns else other  # that is watched
        length, grown, size = self.length + other.length, self.grown + other.grown, self.size.plus(other.size)
        return self.now(length, grown, size, longest.turns, longest.per_kind)

    def now(self, length: int, grown: int, size: Size, turns: int, per_kind: Counter[str]) -> Held:
        """The same, after another walk."""
        return self._replace(length=length, grown=grown, size=size, turns=turns, per_kind=per_kind)

    def of(self, size: Size) -> Held:
        """The same, holding something else."""
        return self._replace(size=size)

    def each(self) -> tuple[str, float]:
        """What it grows with, and the bytes for each."""
        kind = unit(self.per_kind, self.grown or self.turns)
        return kind, self.size.total / max(1, self.per_kind[kind])


class Cycle(NamedTuple):
    """Garbage that refers to itself: what it is, and the lines that tie it."""

    what: str
    place: Place | None
    also: tuple[Place, ...] = ()


@dataclass(frozen=True)
class Facts:
    """All of it.

    Attributes:
        looks: in order; the first was taken on suspicion.
        held: what grows and has a name.
        filling: what does, and has a bound: no leak, and it explains what others would be blamed for.
        happened: the counts.
        cycle: what the garbage is, where there was much.
        trends: of "device", "heap" and "rss".
        clears: whether the script clears Keras' session.
    """

    looks: tuple[Look, ...]
    held: tuple[Held, ...]
    happened: Happenings
    cycle: Cycle | None = None
    trends: dict[str, Trend] = field(default_factory=dict)
    clears: bool = False
    filling: tuple[Held, ...] = ()

    def lasting(self) -> tuple[int, bool]:
        """What has come since the first look and no collection gives back, and whether it is the device's."""
        if len(self.looks) < _LEAST:
            return 0, False
        heap = _rise([look.after.heap for look in self.looks])
        device = _rise([look.after.device for look in self.looks])
        # On the pocket device malloc sees the arena, which doubles as it grows: it is not counted twice.
        return (device, True) if device and heap <= 3 * device else (heap, False)

    def unexplained(self) -> tuple[int, bool]:
        """The same without what is held by a name of the user's."""
        rise, on_device = self.lasting()
        return max(0, rise - sum(one.size.total for one in (*self.held, *self.filling))), on_device

    def still(self, counts: list[int]) -> bool:
        """Whether something happened from look to look, at least some times, and lately."""
        return len(set(counts)) >= _LEAST and counts[-1] > counts[-min(3, len(counts))]

    def may_be_ours(self, times: int, *, kind: str = "") -> bool:
        """Whether fitroom made so much for itself that what came need not be of what a line of the user's made.

        With each model, and each function that trains, the guard makes functions, in the place of those that there
        would be: they are the model's, or the function's.
        """
        if not self.looks:
            return False
        made = self.looks[-1].ours - self.looks[0].ours
        return sum(made.values()) - (made["function"] if kind in _WRAPPED else 0) > _OURS * times

    def turns_of(self, kind: str) -> int:
        """How often something of a kind happened since the first look."""
        return self.looks[-1].kinds[kind] - self.looks[0].kinds[kind] if self.looks else 0


def _rise(values: list[int]) -> int:
    """How much has come from the first to the last, if it came in each half and nothing was given back; else 0."""
    first, middle, last = values[0], values[len(values) // 2], values[-1]
    goes_on = first < middle < last and last >= max(values)
    return last - first if goes_on else 0


def unit(kinds: Counter[str], count: int) -> str:
    """The kind of turn that came as often as something grew, nearly."""
    known = [kind for kind in (*STEPS, "epoch", "fit", "predict", "evaluate") if kinds[kind]]
    return min(known, key=lambda kind: abs(kinds[kind] - count) / max(kinds[kind], count, 1), default="step")
