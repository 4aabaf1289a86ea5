"""Runs a script until it has ended: watches it, tells its deaths apart, starts it again where memory killed it."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fitroom import devices, oom
from fitroom.core import Event, Record, RecordFile, events_of
from fitroom.core.noun import Scalar
from fitroom.devices import gpu, limits, pocket
from fitroom.supervisor import run_folder
from fitroom.supervisor.child import DUMPS, Child, Ended
from fitroom.supervisor.less import Host, Settings, less
from fitroom.supervisor.signals import Signals
from fitroom.units import MIB

SITE = Path(__file__).parent / "site"  # on the script's PYTHONPATH: Python imports what is there before the script
_PERIOD = 0.25  # seconds between two looks
_GIVES_UP_AFTER = 3  # deaths without progress


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
        """What to type after ``python`` or ``fitroom run``."""
        return [*(["-m"] if self.is_module else []), self.script, *self.arguments]


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
        self._stops = 0  # how often the user asked for an end

    def to_its_end(self) -> Outcome:
        fruitless, best = 0, 0
        with Signals().held() as signals:
            while True:
                begun = len(self.events)
                ended = self._attempt(signals)
                if ended.death is None or self._stops:
                    break
                steps = _steps(self.events[begun:])
                fruitless = 0 if steps > best else fruitless + 1
                best = max(best, steps)
                needs_less = less(self.settings, _host(self.events[begun:], ended.last), on_gpu=self.on_gpu)
                self._tell_death(ended.code, ended.death, steps)
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
        child = Child(self.job.command, self._environment(), dumps=self._dumps)
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
            self._stops += number in (signal.SIGINT, signal.SIGTERM)
            if number == signal.SIGINT and self._stops > 1:
                child.send(signal.SIGKILL)
            elif not has_it:
                child.send(number)

    def _environment(self) -> dict[str, str]:
        job, settings = self.job, self.settings
        told = {
            "supervisor": os.getpid(),
            "allow": job.allow,
            "plan": job.plan,
            "budget_mib": settings.budget_mib,
            "slices": settings.slices,
            "hint": " ".join(["fitroom run --allow micro_batch", *job.command]),
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

    def _take(self, event: Event) -> None:
        self.events.append(event)
        self.tell(event)

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
        for event in events_of(whole.decode(errors="replace"))[0]:
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
