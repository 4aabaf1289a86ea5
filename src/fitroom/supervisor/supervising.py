"""Runs a script until it has ended: watches it, tells its deaths apart, starts it again where memory killed it."""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fitroom import devices, oom
from fitroom.core import Event, Record, RecordFile, Resource, events_of
from fitroom.core.noun import Scalar
from fitroom.devices import gpu, pocket
from fitroom.errors import FitroomError, SchemaError
from fitroom.remedies import allocator, read_plan
from fitroom.supervisor import deaths, events, run_folder
from fitroom.supervisor import kept as kept_runs
from fitroom.supervisor.child import DUMPS, Child, Ended
from fitroom.supervisor.events import Place
from fitroom.supervisor.foresight import Foresight
from fitroom.supervisor.job import Job, Outcome
from fitroom.supervisor.kept import Kept
from fitroom.supervisor.less import Settings, less
from fitroom.supervisor.signals import Signals
from fitroom.supervisor.standard_input import StandardInput
from fitroom.supervisor.watching import Watching
from fitroom.training.checkpoint_files import Folder
from fitroom.units import MIB

SITE = Path(__file__).parent / "site"  # on the script's PYTHONPATH: Python imports what is there before the script
_PERIOD = 0.25  # seconds between two looks
_GIVES_UP_AFTER = 3  # deaths without progress
_TRAINS = ("training", "resumed", "put_back", "refused")  # the script has come to its training
_LAST_WORDS = 4000  # characters
_TWICE = 5.0  # seconds between two Ctrl-C that mean "at once"


def supervise(job: Job, tell: Callable[[Event], object]) -> Outcome:
    """Run a script to its end.

    Args:
        job: what to run, and how.
        tell: takes each event as it happens.

    Raises:
        UsageError: if the budget makes no sense, the folder for the Record holds another, or there is no run to go on
            with.
        Changed: if the script has changed since the run that is to be gone on with.
    """
    budget = devices.budget(job.budget) if job.budget is not None else None
    found = kept_runs.find(job) if job.resume else None
    trouble = None
    if found is not None:
        folder, kept = found
        if budget is not None:
            kept = replace(kept, settings=Settings(budget.mib))
    else:
        folder, trouble = run_folder.make(job.script, job.record)
        kept = Kept.new(job, Settings(budget.mib if budget is not None else None))
    held = run_folder.hold(folder)
    try:
        run = _Run(kept, folder, tell, is_resumed=found is not None)
        if trouble is not None:
            run.take_down("record_elsewhere", reason=trouble)
        return run.to_its_end()
    finally:
        os.close(held)


class _Run:
    def __init__(self, kept: Kept, folder: Path, tell: Callable[[Event], object], *, is_resumed: bool) -> None:
        self.kept = kept
        self.job = kept.job
        self.folder = folder
        self.tell = tell
        self.on_gpu = bool(gpu.visible())
        self.input = StandardInput()
        self.events: list[Event] = []
        self.attempts = int(is_resumed)
        home = folder.absolute()
        self._path = home / run_folder.RECORD
        self._dumps = home / "memory"
        self._leave = home / "leave"
        self._checkpoints = Folder(home / run_folder.CHECKPOINTS)
        self._file = RecordFile(self._path, lambda reason: self._take(Event.now("record_lost", reason=reason)))
        self._read = self._size() if is_resumed else 0  # bytes of the record
        self._is_resumed = is_resumed
        self._is_stopped = False  # the user asked for an end
        self._came_to_its_end = False  # the script has, in the last attempt
        self._interrupted = -_TWICE  # when, last
        if is_resumed:
            self.take_down("continued")

    def to_its_end(self) -> Outcome:
        fruitless, best, place = 0, 0, Place()
        with Signals().held() as signals:
            while True:
                self.kept.write(self.folder)
                begun = len(self.events)
                ended = self._attempt(signals)
                happened = self.events[begun:]
                self._tell_end(ended, happened)
                steps = events.steps(happened)
                reached = max([place, *map(events.place, happened)])
                fruitless = 0 if steps > best or reached > place else fruitless + 1
                best, place = max(best, steps), reached
                if self._is_stopped or not self._goes_on(ended):
                    break
                settings = self._settings_after(ended, happened)
                changed = kept_runs.what_changed(self.kept, self.folder)
                if settings is None or changed is not None or fruitless >= _GIVES_UP_AFTER:
                    times = sum(event.kind in ("death", "killed") for event in self.events)
                    self.take_down("given_up", deaths=times, changed=changed)
                    break
                self._start_again(settings)
        self.take_down("ended", code=ended.code)
        self._file.close()
        if ended.code == 0:
            self._checkpoints.remove()
        return Outcome(ended.code, self.folder, self._record(), self.job, self._checkpoints.size())

    def _record(self) -> Record:
        """What happened, in earlier runs that were gone on with, too."""
        if self._is_resumed:
            with suppress(FitroomError):
                return Record.read(self._path)
        return Record(tuple(self.events))

    def _goes_on(self, ended: Ended) -> bool:
        """Whether the script is to be started again: it died of memory, was killed, or crashed in a training."""
        crashed = -ended.code in deaths.ABORTS and self._checkpoints.newest() is not None and not self._came_to_its_end
        return ended.death is not None or ended.code == -signal.SIGKILL or crashed

    def _settings_after(self, ended: Ended, happened: list[Event]) -> Settings | None:
        """How the next attempt is to run: as before, or with less; None where less cannot be."""
        if ended.death is None:
            return self.kept.settings
        return less(self.kept.settings, events.host(happened, ended.last), on_gpu=self.on_gpu)

    def _start_again(self, settings: Settings) -> None:
        is_whole = self.input.rewind()
        self.kept = replace(self.kept, settings=settings)
        self.attempts += 1
        told: dict[str, Scalar] = {"budget_mib": settings.budget_mib, "slices": settings.slices}
        self.take_down("restart", **told, input=is_whole, resumes=self._checkpoints.newest() is not None)

    def _attempt(self, signals: Signals) -> Ended:
        with suppress(OSError):
            self._leave.unlink(missing_ok=True)
        under = [word.format(folder=self.folder.absolute()) for word in self.job.under]
        child = Child(
            [*under, *self.job.command], self._environment(), None, has_group=not Signals.are_keys(), dumps=self._dumps
        )
        foresight, begun, evidence = Foresight(), len(self.events), None
        watching = Watching(self.folder, child.pid, self.kept.settings.budget_mib)
        while (ended := child.poll()) is None:
            self._read_on()
            for kind, data in watching.look():
                self.take_down(kind, **data)
            arrived = signals.wait(_PERIOD)
            if arrived is not None:
                self._pass_on(*arrived, child)
            soon = foresight.look(child.last, time.monotonic())
            if soon is not None and evidence is None and self._can_leave(begun):
                evidence = soon
                with suppress(OSError):
                    self._leave.touch()
        watching.close()
        self._read_on()
        self._came_to_its_end = any(event.kind == "script_over" for event in self.events[begun:])
        if evidence is not None and any(event.kind == "left" for event in self.events[begun:]):
            death = oom.Exhaustion(Resource.HOST_MEMORY, "foreseen", evidence=evidence)
            ended = Ended(ended.code, death, ended.last, ended.said)
        return ended

    def _can_leave(self, begun: int) -> bool:
        """Whether a training is under way that can be saved, and started again with less."""
        is_training = any(event.kind == "training" for event in self.events[begun:])
        return is_training and self._follows and not self._is_stopped and self._file.is_open

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
        job, settings = self.job, self.kept.settings
        told = {
            "supervisor": os.getpid(),
            "allow": job.allow,
            "plan": job.plan,
            "budget_mib": settings.budget_mib,
            "slices": settings.slices,
            "hint": job.typed("micro_batch"),
            "checkpoints": str(self._checkpoints.path) if self._follows else None,
            "leave": str(self._leave),
            "every": job.every,
            "seed": self.kept.seed,
            "attempt": self.attempts,
            "home": str(Path.cwd()),
            "beside": job.beside,
        }
        limit = {}
        if settings.budget_mib is not None and not self.on_gpu:
            limit = pocket.environment(settings.budget_mib * MIB)
        paths = [str(SITE), *filter(None, [os.environ.get("PYTHONPATH")])]
        ours = {"PYTHONPATH": os.pathsep.join(paths), "FITROOM_RUN": json.dumps(told)}
        if self._follows and "PYTHONHASHSEED" not in os.environ:
            ours["PYTHONHASHSEED"] = str(self.kept.seed % 2**32)  # sets of strings come in the same order again
        if settings.few_arenas:
            limit |= {"MALLOC_ARENA_MAX": "2"}
        limit |= allocator.ENVIRONMENT.get(str(read_plan(job.plan).setting(allocator.NAME)), {})
        dumps = {DUMPS: f"{self._dumps}/"} if DUMPS not in os.environ else {}
        return {**os.environ, **limit, **dumps, **ours, "FITROOM_RECORD": str(self._path)}

    @property
    def _follows(self) -> bool:
        return self.job.every != math.inf

    # --- what happens ----------------------------------------------------------------------------------------------

    def take_down(self, kind: str, **data: Scalar) -> None:
        """Take an event of our own into the Record."""
        event = self._file.append(kind, **data)
        self._read_on()
        if not self._file.is_open:
            self._take(event)

    def _tell_end(self, ended: Ended, happened: list[Event]) -> None:
        """Take down how an attempt ended, where it did not end well."""
        found = ended.death
        if found is not None:
            told: dict[str, Scalar] = {"resource": found.resource.value, "face": found.face, "evidence": found.evidence}
            self.take_down("death", code=ended.code, steps=events.steps(happened), **told)
        elif self._goes_on(ended) and not self._is_stopped:
            self.take_down("killed", code=ended.code, steps=events.steps(happened))
        elif ended.code:
            words = ended.said[-_LAST_WORDS:]
            found = oom.from_text(words)
            if found is not None and found.certain and found.is_memory:
                told = {"resource": found.resource.value, "face": found.face, "evidence": found.evidence}
                self.take_down("ran_out", **told)
            elif self.attempts and not any(event.kind in _TRAINS for event in happened):
                last = next((line for line in reversed(words.splitlines()) if line.strip()), "")
                self.take_down("failed_again", code=ended.code, said=last)

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
            found, _ = events_of(whole.decode(errors="replace"))
        except SchemaError:  # somebody else's lines
            return
        for event in found:
            self._take(event)

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return self._read
