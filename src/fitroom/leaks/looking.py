"""Looks at the whole heap: when one is due, and what it takes down."""

from __future__ import annotations

import gc
import linecache
import time
from collections import Counter
from dataclasses import replace
from types import FrameType

from fitroom.leaks import census, counters, cycles
from fitroom.leaks.counters import Counters
from fitroom.leaks.facts import Cycle, Facts, Look
from fitroom.leaks.growing import Growing
from fitroom.leaks.happenings import Happenings
from fitroom.leaks.scene import Scene
from fitroom.leaks.sizes import Size
from fitroom.leaks.trends import Trend
from fitroom.units import MIB

_ENOUGH = 3  # looks that show nothing end a series
_SERIES = 6  # looks that follow one suspicion
_MORE_TURNS = 0.25  # of the turns so far, until the next look
_FEWEST = 4  # turns, too
_MOST_TURNS = 5000
_WAIT = 3.0  # times what a look takes, until the next
_WAIT_AT_FIRST = 0.15  # seconds
_MORE_AT_FIRST = 0.08  # of the turns so far
_TWICE = 2.0  # times as long as at the last look: one more, so that what grows once an epoch is seen to
_WORTH_IT = 15.0  # times as long as a look takes, before one more
_ALLOWED = 1.8  # seconds of looks, whatever the time so far
_ALLOWED_AT_FIRST = 3.0  # in the first series: less than three looks tell nothing
_SHARE = 0.008  # of the time, beyond that
_KEPT = 12  # looks that are remembered
_MUCH_GARBAGE = 4 * MIB
_LITTLE = MIB // 4


class Looking:
    """Takes looks, and remembers them."""

    def __init__(self, happened: Happenings) -> None:
        self._happened = happened
        self._looks: list[Look] = []
        self._growing = Growing()
        self._cycle: Cycle | None = None
        self._collected = 0  # by us
        self.spent = 0.0
        self._took = 0.3
        self._left = 0  # looks of a series that are still to come

    def is_due(self, turn: int, elapsed: float, *, suspicious: bool, is_last: bool = False) -> bool:
        """Whether to look now."""
        if suspicious and not self._left and (not self._looks or self._affordable(elapsed)):
            self._left = _SERIES if len(self._looks) < _SERIES else 1
        if not self._left:
            return False
        if not self._looks:
            return True
        last = self._looks[-1]
        turns, seconds = turn - last.turn, elapsed - last.seconds
        if is_last:
            return turns >= _FEWEST
        far = len(self._looks) >= _SERIES
        enough = (
            max(_FEWEST, min(int(_MORE_TURNS * last.turn), _MOST_TURNS))
            if far
            else max(_FEWEST, int(_MORE_AT_FIRST * last.turn))
        )
        wait = _WAIT * self._took if far else _WAIT_AT_FIRST
        return turns >= enough and seconds >= wait and self._affordable(elapsed)

    def _affordable(self, elapsed: float) -> bool:
        is_seldom = bool(self._looks) and elapsed >= max(_TWICE * self._looks[-1].seconds, _WORTH_IT * self._took)
        allowed = _ALLOWED_AT_FIRST if len(self._looks) < _SERIES else _ALLOWED
        return is_seldom or self.spent + self._took <= allowed + _SHARE * elapsed

    def look(
        self, turn: int, elapsed: float, reader: Counters, trends: dict[str, Trend], frame: FrameType | None
    ) -> Facts:
        """Collect garbage, have malloc trim where that tells something, walk through the heap."""
        start = time.monotonic()
        scene = Scene(frame)
        before = reader.read()
        automatic = gc.get_stats()[2]["collections"] - self._collected
        seen = self._looks[-1].garbage if self._looks else 0
        if seen >= _MUCH_GARBAGE and self._cycle is None:
            self._cycle = cycles.collect(scene.files)
            self._collected += 2
        else:
            gc.collect()
            self._collected += 1
        after = reader.read()
        trimmed = None
        if trends["rss"].grows or any(look.trimmed is not None for look in self._looks):
            counters.trim()
            trimmed = reader.read().rss
        walk = census.take(turn, self._growing.last, scene)
        kinds: Counter[str] = Counter(self._happened.kinds)
        look = Look(
            turn, elapsed, kinds, Counter(self._happened.made), self.traces(), before, after, trimmed, automatic,
            walk.tensors,
            walk.objects,
            self._happened.ours.copy(),
        )  # fmt: skip
        self._looks = [*self._looks[-_KEPT:], look]
        grown = self._growing.take(walk, kinds, scene)
        held = tuple(one for one in grown if not one.is_bounded)
        filling = tuple(one for one in grown if one.is_bounded)
        reader.own = self._growing.weight()
        self._left = max(0, self._left - 1)
        self._took = time.monotonic() - start
        self.spent += self._took
        facts = Facts(tuple(self._looks), held, self._happened, self._cycle, trends, _clears(scene.files), filling)
        if len(self._looks) >= _ENOUGH and not held and facts.lasting()[0] < _LITTLE and look.garbage < _MUCH_GARBAGE:
            self._left = 0  # it was a warm-up
        return blamed(facts)

    def traces(self) -> dict[object, int]:
        """How often each function was traced."""
        return {key: traced.traces for key, traced in self._happened.traced.items()}


def blamed(facts: Facts) -> Facts:
    """The same, with what nothing else explains laid on the one container whose objects do not tell what they hold."""
    silent = [held for held in facts.held if held.size.opaque and held.size.total < _LITTLE]
    rest, on_device = facts.unexplained()
    others = tuple(held for held in facts.held if held not in silent)
    if len(silent) != 1 or rest < _LITTLE:
        return replace(facts, held=others)
    size = Size(rest, 0, silent[0].grown) if on_device else Size(rest // 2 + 1, rest // 2, silent[0].grown)
    return replace(facts, held=(*others, silent[0].of(size)))


def _clears(files: tuple[str, ...]) -> bool:
    """Whether the user's code clears Keras' session somewhere."""
    return any("clear_session" in line for file in files for line in linecache.getlines(file))
