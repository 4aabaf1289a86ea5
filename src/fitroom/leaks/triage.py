"""From facts to leaks: which cause explains what grows, whether it matters, and what is told of it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import NamedTuple

from fitroom import leaks as causes
from fitroom.core import Cause
from fitroom.leaks import second_step
from fitroom.leaks.counters import Counters, Counts
from fitroom.leaks.facts import Facts
from fitroom.leaks.leak import Leak
from fitroom.leaks.places import Place
from fitroom.leaks.trends import Trend

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

_HORIZON = 7 * 24 * 3600.0  # seconds: what would take longer is no danger to a training
_AGAIN = 1.3  # times as much or as little time as was said: worth saying again
_CALM = 0.1  # of the time that was said to be left, before another is said
_TURNS, _MORE = 20, 0.3  # turns without growth, and of those so far, until a leak is none
_STILL = 0.25  # of the growth that was to be expected
_LEAPS = 0.1  # of a leak's speed, between its leaps: tables that double as they fill
_HELPED = 0.25  # of what the leaks have grown by, given back: it is by acting that they stop
_SOON = 3  # steps that may have passed before the one that "comes after the first"

_ENDED_BY_LOOKS = {Cause.REFERENCE_CYCLES, Cause.MALLOC_RETENTION}  # which collect and trim

_Key = tuple[Cause, "Place | None"]


class _Since(NamedTuple):
    """When a leak was seen last: the turn, the counters, its bytes a turn and a second."""

    turn: int
    counts: Counts
    per_turn: float
    per_second: float


class Triage:
    """Keeps the leaks that are known, and tells of them."""

    def __init__(self, tell: Callable[..., object]) -> None:
        self._tell = tell
        self._known: dict[_Key, Leak] = {}
        self._told: dict[_Key, tuple[Leak, float]] = {}  # what was said, and when
        self._since: dict[_Key, _Since] = {}
        self._second = False
        self._acted: set[Cause] = set()  # against these something is done that helps

    @property
    def leaks(self) -> list[Leak]:
        """What leaks, as far as is known."""
        return list(self._known.values())

    def judge(self, facts: Facts, reader: Counters, *, is_last: bool) -> None:
        """Take facts: tell of what is new, and take back what has stopped."""
        found: dict[_Key, tuple[Leak, float]] = {}
        window = facts.looks[-1].seconds - facts.looks[0].seconds
        for leak in self._without_effects(_found(facts)):
            own = leak.grown / window if window > 0 else 0.0
            left = _seconds_left(leak, own, facts.trends, reader)
            if left is not None and left <= _HORIZON:
                found[leak.key] = leak.running_out_in(left), own
        if not is_last:  # at the end, what was in a function's variables is gone
            elsewhere = {cause for cause, _ in found}  # the line that makes something, until its holder is known
            for key in [key for key in self._known if key not in found]:
                if self._may_stop(key[0]) or key[0] in elsewhere:
                    self._over(key)
        last, turns = facts.looks[-1], facts.looks[-1].turn - facts.looks[0].turn
        for key, (leak, own) in found.items():
            self._since[key] = _Since(last.turn, last.after, _at_least(leak.grown / max(1, turns), facts), own)
            self._known[key] = leak
            if key not in self._told:
                self._say(leak)
            else:
                self._say_again(leak, leak.seconds_left or 0.0)

    def _without_effects(self, found: list[Leak]) -> list[Leak]:
        """What cycles hold is freed all at once when it is collected; that malloc keeps it for a while is no leak."""
        causes = {leak.cause for leak in (*found, *self._known.values())}
        is_effect = Cause.REFERENCE_CYCLES in causes
        return [leak for leak in found if not (is_effect and leak.cause is Cause.MALLOC_RETENTION)]

    def _say(self, leak: Leak) -> None:
        self._told[leak.key] = leak, time.monotonic()
        self._tell("leak", **leak.event())

    def _say_again(self, leak: Leak, left: float) -> None:
        """Tell of a leak that is known, where the time that is left is another than was to be expected."""
        before, then = self._told[leak.key]
        if _differs(before, time.monotonic() - then, left):
            self._known[leak.key] = leak.running_out_in(left)
            self._say(self._known[leak.key])

    def recheck(self, turn: int, trends: dict[str, Trend], reader: Counters) -> None:
        """By the counters alone: take back what has stopped, and tell where the time that is left has changed."""
        counts = reader.read()
        for key, (since, then, each, own) in list(self._since.items()):
            turns = turn - since
            came = max(counts.heap - then.heap, counts.device - then.device)
            if self._may_stop(key[0]) and turns >= max(_TURNS, _MORE * since) and came < _STILL * each * turns:
                self._over(key)
            elif any(trend.grows for trend in trends.values()):
                left = _seconds_left(self._known[key], own, trends, reader)
                if left is not None:
                    self._say_again(self._known[key], left)

    def _may_stop(self, cause: Cause) -> bool:
        """Whether that it no longer grows says that it is no leak."""
        return cause not in (*_ENDED_BY_LOOKS, Cause.SECOND_STEP) and cause not in self._acted

    def _over(self, key: _Key) -> None:
        leak = self._known.pop(key)
        self._told.pop(key, None)
        self._since.pop(key, None)
        self._tell("leak_over", cause=leak.cause.value, where=str(leak.place) if leak.place else None)

    def helped(self, gained: int) -> None:
        """Something was done about the leaks that gave so much back: that they stop growing may say nothing."""
        if gained >= _HELPED * sum(leak.grown for leak in self.leaks):
            self._acted |= {leak.cause for leak in self.leaks}

    def close(self) -> None:
        """The script is over: tell the last figures."""
        for key, leak in self._known.items():
            if self._told[key][0] != leak:
                self._tell("leak", **leak.event())

    def ran_out(
        self,
        steps: int,
        place: Place | None,
        first: Counts | None,
        reader: Counters,
        model: Any,
    ) -> None:
        """A step ran out of memory: was it the one after the first?"""
        if not 1 <= steps <= _SOON or self._second or reader.device_limit is None:
            return
        from fitroom.leaks import asking_seams

        self._second = True
        now = reader.read()
        stays = {}
        if model is not None:
            stays["the optimizer's slots"] = asking_seams.slots_of(model)
            stays["weights"] = asking_seams.weights_of(model)
        came = now.device - (first.device if first is not None else stays.get("weights", 0))
        stays["batches prepared ahead, outputs and graphs"] = max(0, came - stays.get("the optimizer's slots", 0))
        leak = second_step.leak(second_step.Second(place, steps, stays, reader.device_limit))
        self._known[leak.key] = leak
        self._say(leak)


def _found(facts: Facts) -> list[Leak]:
    """The leaks that the facts show: what has a name, one cause for the rest, and those that are told otherwise."""
    found = [leak for one in causes.NAMED for leak in one.find(facts)]
    for one in causes.MADE:
        rest = list(one.find(facts))
        found += rest
        if rest:
            break
    found += [leak for one in causes.OTHERS for leak in one.find(facts)]
    return [leak for leak in found if leak.place is not None]


def _at_least(speed: float, facts: Facts) -> float:
    """The bytes a turn to be expected of a leak: as between the two looks with the least, where it leaps."""
    speeds = [
        max(after.after.heap - before.after.heap, after.after.device - before.after.device) / (after.turn - before.turn)
        for before, after in itertools.pairwise(facts.looks)
        if after.turn > before.turn
    ]
    return max(_LEAPS * speed, min(speed, *speeds)) if speeds else speed


def _seconds_left(leak: Leak, own: float, trends: dict[str, Trend], reader: Counters) -> float | None:
    """How long memory lasts, by what the counters do; by the leak's `own` bytes a second where they do not tell."""
    limit = reader.device_limit
    if leak.on_device and limit is not None:
        now = reader.read()
        speed = trends["device"].per_second if trends["device"].grows else own
        room = limit - max(now.device, min(now.peak, limit))
    else:
        of = "rss" if leak.cause is Cause.MALLOC_RETENTION else "heap"
        speed = max(trends[of].per_second, own) if trends[of].per_second < 0.3 * own else trends[of].per_second
        room, _ = reader.host_room()
    return max(0.0, room / speed) if speed > 0 else None


def _differs(before: Leak, passed: float, now: float) -> bool:
    """Whether a time that is left is another than was said some time ago."""
    expected = (before.seconds_left or 0.0) - passed
    if passed < _CALM * (before.seconds_left or 0.0):
        return False
    return now > 1.0 and not 1 / _AGAIN <= (now + 1) / (max(0.0, expected) + 1) <= _AGAIN
