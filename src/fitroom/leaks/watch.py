"""The watch over one process: reads the counters at ticks, grows suspicious, looks closer, and tells."""

from __future__ import annotations

import contextlib
import inspect
import os
import threading
import time
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

from fitroom import oom
from fitroom.leaks import places, predict_in_loop
from fitroom.leaks.counters import Counters, Counts
from fitroom.leaks.facts import Facts
from fitroom.leaks.happenings import CALLS, Happenings, Made, Traced
from fitroom.leaks.leak import Leak
from fitroom.leaks.looking import Looking
from fitroom.leaks.places import Place
from fitroom.leaks.trends import Series, Trend, trend
from fitroom.leaks.triage import Triage
from fitroom.units import KIB, MIB

Tell = Callable[..., object]

_OFTEN = 0.005  # seconds between two readings, at least
_COSTS = 150.0  # times what a reading takes, until the next; at first, when few are known:
_SETTLED = 30.0  # seconds after which it is twice as long
_JUDGED = 0.1  # seconds between two judgements, at least
_LEAST = {"device": 48.0 * KIB, "heap": 48.0 * KIB, "rss": 64.0 * MIB}  # growth that makes suspicious
# Seconds in which less than that is a warm-up's, and no look is worth it; less of what comes at one speed.
_EARLY, _LEAST_EARLY, _LEAST_STRAIGHT = 15.0, 2.0 * MIB, 256.0 * KIB
_ALSO = 4  # lines that led to a place
# Times as many calls of predict as at the last look: what one of them leaves hardly shows.
_DOUBLE, _AT_LAST = 2.0, 1.25


class Watch:
    """Watches one process.

    Args:
        tell: takes events.
        act: whether to do something about leaks, where that changes no result.
    """

    def __init__(self, tell: Tell, *, act: bool = False) -> None:
        self.happened = Happenings()
        self._tell = tell
        self.acts = act
        self._lock = threading.Lock()
        self._counters: Counters | None = None
        self._series = {name: Series() for name in _LEAST}
        self._began = time.monotonic()
        self._due = 0.0
        self._judged = self._began
        self._turn = 0
        self._looking = Looking(self.happened)
        self._triage = Triage(tell)
        self._acting: Any = None
        self.is_on = True
        self._first: Counts | None = None  # before the steps of the training under way
        self._begun = 0  # the turn in which that began
        self._model: weakref.ref[Any] | None = None  # what it trains
        self._predicted = 0  # calls of predict on one line, when last looked at
        os.register_at_fork(after_in_child=self.stop)

    def stop(self) -> None:
        """Watch no longer."""
        self.is_on = False

    def lost(self, error: Exception) -> None:
        """Something went wrong here: the script goes on, unwatched."""
        if self.is_on:
            self.stop()
            self._tell("leak_watch_lost", reason=f"{type(error).__name__}: {error}")

    # --- what the hooks tell -----------------------------------------------------------------------------------------

    def tick(self, kind: str) -> None:
        """A turn of some loop is over. Where it is in the source is looked at now and then: that takes longer."""
        self._turn += 1
        self.happened.kinds[kind] += 1
        now = time.monotonic()
        if now >= self._due and self.is_on and self._lock.acquire(blocking=False):
            try:
                if kind not in CALLS:
                    self._note(kind)
                self._read(now)
            except Exception as error:  # whatever it is, the script goes on, unwatched
                self.lost(error)
            finally:
                self._lock.release()

    def called(self, kind: str) -> None:
        """A turn of some loop is over that was a call, each of which counts where it is in the source."""
        self._note(kind)
        self.tick(kind)

    def _note(self, kind: str) -> None:
        place = places.place_of(inspect.currentframe())
        if place is not None:
            self.happened.calls[kind, place] += 1

    def made(self, kind: str) -> None:
        """Something was made, on the line where the user's code is; what fitroom makes for itself does not count."""
        frame = inspect.currentframe()
        if places.is_by_us(frame):
            self.happened.ours[kind] += 1
            return
        frames = places.users_frames(frame)[: _ALSO + 1]
        lines = [Place(one.f_code.co_filename, one.f_lineno, one.f_code.co_name) for one in frames]
        if lines and self.is_on:
            self.happened.made[Made(kind, lines[0], tuple(dict.fromkeys(lines[1:])))] += 1

    def traced(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], new: int) -> None:
        """A call of a function made new graphs."""
        from fitroom.leaks import asking_seams

        code = places.code_of(function.python_function)
        is_users = code is not None and places.is_users_code(code)
        key: Any = (code.co_filename, code.co_firstlineno) if code is not None else id(function)
        called = places.place_of(inspect.currentframe())
        if not is_users and called is not None:  # Keras' own functions: told apart by who calls
            key = (*key, called) if isinstance(key, tuple) else (key, called)
        known = self.happened.traced.get(key)
        if known is None:
            place = (
                Place(code.co_filename, code.co_firstlineno, code.co_name) if is_users and code is not None else None
            )
            name = getattr(function.python_function, "__name__", "a function")
            known = self.happened.traced[key] = Traced(name, place, called)
        for _ in range(new):
            arguments = asking_seams.describe_arguments(function, args, kwargs)
            known.trace(arguments, called, asking_seams.operations_of(function))

    def program(self, function: Any) -> None:
        """XLA compiles for a function, or for a model that is trained on the line where the user's code is."""
        code = places.code_of(getattr(function, "python_function", None))
        if code is not None and places.is_users_code(code):
            also = places.place_of(inspect.currentframe())
            place = Place(code.co_filename, code.co_firstlineno, code.co_name)
            self.happened.made[Made("program", place, (also,) if also is not None else ())] += 1
        elif function is None:
            self.made("program")

    def begins(self, model: Any) -> None:
        """A training begins: what it finds, and a good moment to act."""
        self._begun = self._turn
        self._model = weakref.ref(model)
        self._first = None
        if self._lock.acquire(blocking=False):
            try:
                self._first = self._reader().read()
                self._act(between_trainings=True)
            finally:
                self._lock.release()

    def failed(self, error: Exception, model: Any) -> None:
        """A call raised: perhaps right after the first step had passed."""
        found = oom.from_exception(error)
        if found is not None and found.is_memory and found.certain:
            self.ran_out(model)

    def ran_out(self, model: Any = None) -> None:
        """A step ran out of memory."""
        if self.is_on and self._counters is not None:
            place = places.place_of(inspect.currentframe())
            model = self._model() if model is None and self._model is not None else model
            self._triage.ran_out(self._turn - self._begun, place, self._first, self._counters, model)

    # --- what comes of it --------------------------------------------------------------------------------------------

    def _elapsed(self) -> float:
        """How long the script has run, without the looks: they hold it up for some seconds at first, then no more."""
        return time.monotonic() - self._began - self._looking.spent

    def _reader(self) -> Counters:
        if self._counters is None:
            self._counters = Counters()
            self._began = time.monotonic()
        return self._counters

    def _read(self, now: float) -> None:
        counts = self._reader().read()
        if self._first is None:
            self._first = counts
        elapsed = self._elapsed()
        for name in self._series:
            self._series[name].add(self._turn, elapsed, getattr(counts, name))
        took = time.monotonic() - now
        self._due = now + max(_OFTEN + elapsed / 300, _COSTS * took * (1 + elapsed / _SETTLED))
        if now - self._judged >= max(_JUDGED, elapsed * 0.05):
            self._judge(now, self._is_suspicious())

    def _is_suspicious(self) -> bool:
        trends = self._trends()
        return any(one.grows for one in trends.values())

    def _trends(self) -> dict[str, Trend]:
        """What each counter does, on the whole and lately."""
        found = {}
        for name, series in self._series.items():
            points = series.points
            judged = [trend(points[-count:], _LEAST[name]) for count in (len(points), len(points) // 2) if count]
            found[name] = next((one for one in judged if one.grows and self._is_worth_it(one)), Trend(False))
        return found

    def _is_worth_it(self, rising: Trend) -> bool:
        least = _LEAST_STRAIGHT if rising.is_straight else _LEAST_EARLY
        return self._elapsed() >= _EARLY or rising.risen > least

    def _judge(self, now: float, suspicious: bool) -> None:
        self._judged = now
        if self._triage.leaks:
            self._triage.recheck(self._turn, self._trends(), self._reader())
        if self._looking.is_due(self._turn, self._elapsed(), suspicious=suspicious) or self._predicts(_DOUBLE):
            self._look()
        self._act(between_trainings=False)

    def _predicts(self, more: float) -> bool:
        """Whether a line calls predict so often that it is worth a look, and so much more often than at the last."""
        loop = self.happened.loop(*predict_in_loop.KINDS)
        if loop is None or loop[1] < max(predict_in_loop.MANY, more * self._predicted):
            return False
        self._predicted = loop[1]
        return True

    def _look(self, *, is_last: bool = False) -> None:
        frame: FrameType | None = inspect.currentframe()
        trends = self._trends()  # before anything is collected
        facts: Facts = self._looking.look(self._turn, self._elapsed(), self._reader(), trends, frame)
        self._triage.judge(facts, self._reader(), is_last=is_last)

    def _act(self, *, between_trainings: bool) -> None:
        leaks = self._triage.leaks
        if not self.acts or not leaks:
            return
        from fitroom.leaks.acting import Acting

        self._acting = self._acting or Acting()
        if self._acting.is_due(leaks):
            gain = self._acting.act(leaks, between_trainings=between_trainings)
            if gain is not None:
                self._triage.helped(gain.gained)
                self._tell("leak_acted", action=gain.action, gained_bytes=gain.gained, seconds=round(gain.seconds, 3))

    def finish(self) -> None:
        """The script is over: a last look, where there is something to confirm."""
        if not self.is_on or self._counters is None or not self._lock.acquire(blocking=False):
            return
        with contextlib.suppress(Exception):
            elapsed = self._elapsed()
            is_due = self._looking.is_due(self._turn, elapsed, suspicious=self._is_suspicious(), is_last=True)
            if is_due or self._predicts(_AT_LAST):
                self._look(is_last=True)
            self._triage.close()
        self._lock.release()
        self.stop()

    @property
    def leaks(self) -> list[Leak]:
        """What leaks, as far as is known."""
        return self._triage.leaks
