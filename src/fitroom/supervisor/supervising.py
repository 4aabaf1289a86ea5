"""Runs a script until it has ended: watches it, tells its deaths apart, starts it again where memory killed it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fitroom import devices, oom
from fitroom.core import Event, Record, RecordFile, events_of
from fitroom.core.noun import Scalar
from fitroom.devices import gpu, limits, pocket
from fitroom.errors import SchemaError
from fitroom.supervisor import run_folder
from fitroom.supervisor.child import DUMPS, Child, Ended
from fitroom.supervisor.less import Host, Settings, less
from fitroom.supervisor.signals import Signals
from fitroom.units import MIB

SITE = Path(__file__).parent / "site"  # on the script's PYTHONPATH: Python imports what is there before the script
_PERIOD = 0.25  # seconds between two looks
_GIVES_UP_AFTER = 3  # deaths without progress
_LAST_WORDS = 4000  # characters
_TWICE = 5.0  # seconds between two Ctrl-C that mean "at once"


@dataclass(frozen=True)
class Job:
    """What the user asked for.

    Attributes:
        script: a file, or a module's name.
        arguments: the script's own.
        is_module: whether it is a module's name, as with ``python -m``.
        budget: how many bytes may be used, such as "8GiB"; None for what there is.
        allow: remedies that may change the math.
        plan: what to do from the start.
        record: the folder for the Record; None for one under ``.fitroom``.
    """

    script: str
    arguments: tuple[str, ...] = ()
    is_module: bool = False
    budget: str | None = None
    allow: tuple[str, ...] = ()
    plan: str | None = None
    record: str | None = None

    @property
    def command(self) -> list[str]:
        """What to type after ``python``."""
        return [*(["-m"] if self.is_module else []), self.script, *self.arguments]

    def typed(self, *allow: str) -> str:
        """The command line for the same run; with more allowed, if that is asked for."""
        options = [("--budget", self.budget), ("--plan", self.plan)]
        options += [("--allow", name) for name in dict.fromkeys([*self.allow, *allow])]
        words = [word for name, value in options if value is not None for word in (name, value)]
        return shlex.join(["fitroom", "run", *words, *self.command])


class Outcome(NamedTuple):
    """How it ended.

    Attributes:
        code: the script's exit code, negative for a signal.
        folder: where the Record is.
        record: what happened, over all attempts.
    """

    code: int
    folder: Path
    record: Record


def supervise(job: Job, tell: Callable[[Event], object]) -> Outcome:
    """Run a script to its end.

    Args:
        job: what to run, and how.
        tell: takes each event as it happens.

    Raises:
        UsageError: if the budget makes no sense, or the folder for the Record holds another.
    """
    budget = devices.budget(job.budget) if job.budget is not None else None
    folder, trouble = run_folder.make(job.script, job.record)
    run = _Run(job, Settings(budget.mib if budget is not None else None), folder, tell)
    if trouble is not None:
        run.take_down("record_elsewhere", reason=trouble)
    return run.to_its_end()


class _Run:
    def __init__(self, job: Job, settings: Settings, folder: Path, tell: Callable[[Event], object]) -> None:
        self.job = job
        self.settings = settings
        self.folder = folder
        self.tell = tell
        self.on_gpu = bool(gpu.visible())
        self.input = _Input()
        self.events: list[Event] = []
        self._path = (folder / run_folder.RECORD).absolute()
        self._dumps = self._path.parent / "memory"
        self._file = RecordFile(self._path, lambda reason: self._take(Event.now("record_lost", reason=reason)))
        self._read = 0  # bytes of the record
        self._is_stopped = False  # the user asked for an end
        self._interrupted = -_TWICE  # when, last

    def to_its_end(self) -> Outcome:
        fruitless, best = 0, 0
        with Signals().held() as signals:
            while True:
                begun = len(self.events)
                ended = self._attempt(signals)
                if ended.death is None:
                    self._tell_last_words(ended)
                    break
                steps = _steps(self.events[begun:])
                fruitless = 0 if steps > best else fruitless + 1
                best = max(best, steps)
                needs_less = less(self.settings, _host(self.events[begun:], ended.last), on_gpu=self.on_gpu)
                self._tell_death(ended.code, ended.death, steps)
                if self._is_stopped:
                    break
                if needs_less is None or fruitless >= _GIVES_UP_AFTER:
                    self.take_down("given_up", deaths=sum(event.kind == "death" for event in self.events))
                    break
                self.settings = needs_less
                is_whole = self.input.rewind()
                self.take_down("restart", budget_mib=needs_less.budget_mib, slices=needs_less.slices, input=is_whole)
        self.take_down("ended", code=ended.code)
        self._file.close()
        return Outcome(ended.code, self.folder, Record(tuple(self.events)))

    def _attempt(self, signals: Signals) -> Ended:
        child = Child(self.job.command, self._environment(), None, has_group=not Signals.are_keys(), dumps=self._dumps)
        while (ended := child.poll()) is None:
            self._read_on()
            arrived = signals.wait(_PERIOD)
            if arrived is not None:
                self._pass_on(*arrived, child)
        self._read_on()
        return ended

    def _pass_on(self, number: signal.Signals, has_it: bool, child: Child) -> None:
        if number == signal.SIGWINCH:
            child.fit_window()
        elif number != signal.SIGCHLD:
            self._is_stopped |= number in (signal.SIGINT, signal.SIGTERM)
            now = time.monotonic()
            if number == signal.SIGINT and now - self._interrupted < _TWICE:
                child.send(signal.SIGKILL)
            elif not has_it:
                child.send(number)
            self._interrupted = now if number == signal.SIGINT else self._interrupted

    def _environment(self) -> dict[str, str]:
        job, settings = self.job, self.settings
        told = {
            "supervisor": os.getpid(),
            "allow": job.allow,
            "plan": job.plan,
            "budget_mib": settings.budget_mib,
            "slices": settings.slices,
            "hint": job.typed("micro_batch"),
        }
        limit = {}
        if settings.budget_mib is not None and not self.on_gpu:
            limit = pocket.environment(settings.budget_mib * MIB)
        paths = [str(SITE), *filter(None, [os.environ.get("PYTHONPATH")])]
        ours = {"PYTHONPATH": os.pathsep.join(paths), "FITROOM_RUN": json.dumps(told)}
        if settings.few_arenas:
            limit |= {"MALLOC_ARENA_MAX": "2"}
        dumps = {DUMPS: f"{self._dumps}/"} if DUMPS not in os.environ else {}
        return {**os.environ, **limit, **dumps, **ours, "FITROOM_RECORD": str(self._path)}

    # --- what happens ----------------------------------------------------------------------------------------------

    def take_down(self, kind: str, **data: Scalar) -> None:
        """Take an event of our own into the Record."""
        event = self._file.append(kind, **data)
        self._read_on()
        if not self._file.is_open:
            self._take(event)

    def _tell_death(self, code: int, found: oom.Exhaustion, steps: int) -> None:
        told: dict[str, Scalar] = {"resource": found.resource.value, "face": found.face, "evidence": found.evidence}
        self.take_down("death", code=code, steps=steps, **told)

    def _tell_last_words(self, ended: Ended) -> None:
        """Where the script ended with an error about memory that nothing here could help, take that down."""
        found = oom.from_text(ended.said[-_LAST_WORDS:]) if ended.code else None
        if found is not None and found.certain and found.is_memory:
            self.take_down("ran_out", resource=found.resource.value, face=found.face, evidence=found.evidence)

    def _take(self, event: Event) -> None:
        self.events.append(event)
        self.tell(event)  # must not raise: the script's life hangs on ours

    def _read_on(self) -> None:
        """Take the events that the script's processes have written since."""
        if self._size() <= self._read:
            return
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                content = file.read()
        except OSError:
            return
        whole = content[: content.rfind(b"\n") + 1]
        self._read += len(whole)
        try:
            events, _ = events_of(whole.decode(errors="replace"))
        except SchemaError:  # somebody else's lines
            return
        for event in events:
            self._take(event)

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return self._read


def _steps(events: list[Event]) -> int:
    """How many steps an attempt made."""
    return max((int(event.data["steps"] or 0) for event in events if event.kind == "progress"), default=0)


def _host(events: list[Event], last: list[limits.Use]) -> Host | None:
    """The limit of the host's that left the least room to a training, and what was used of it before."""
    before = next((event.data for event in events if event.kind == "training"), {})
    found = [Host(use.limit, int(before.get(use.what) or 0), use.what == limits.ADDRESS_SPACE) for use in last]
    return min(found, key=lambda host: host.room, default=None)


class _Input:
    """Standard input, which every attempt should read from where the run began."""

    def __init__(self) -> None:
        self._begin: int | None = None
        try:
            if stat.S_ISREG(os.fstat(0).st_mode):
                self._begin = os.lseek(0, 0, os.SEEK_CUR)
        except OSError:  # closed
            pass

    def rewind(self) -> bool:
        """Go back there; False where what has been read is gone."""
        if self._begin is not None:
            os.lseek(0, self._begin, os.SEEK_SET)
            return True
        try:
            mode = os.fstat(0).st_mode
        except OSError:
            return True
        return not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))
