"""What a run is asked for, and how it ended."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fitroom.core import Record


@dataclass(frozen=True)
class Job:
    """What the user asked for.

    Attributes:
        script: a file, or a module's name; empty to go on with the last run, whatever it was.
        arguments: the script's own.
        is_module: whether it is a module's name, as with ``python -m``.
        budget: how many bytes may be used, such as "8GiB"; None for what there is.
        allow: remedies that may change the math.
        plan: what to do from the start.
        record: the folder for the Record; None for one under ``.fitroom``.
        resume: whether to go on with the script's last run.
        every: seconds between two checkpoints; None to have them cost little, infinite for none.
        under: what runs the script, between ``python`` and its name; ``{folder}`` is the run's.
        beside: modules whose `install` is called in the script's processes, too.
    """

    script: str
    arguments: tuple[str, ...] = ()
    is_module: bool = False
    budget: str | None = None
    allow: tuple[str, ...] = ()
    plan: str | None = None
    record: str | None = None
    resume: bool = False
    every: float | None = None
    under: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

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

    def resumed(self) -> str:
        """The command line that goes on with this run."""
        record = ["--record", self.record] if self.record is not None else []
        return shlex.join(["fitroom", "run", "--resume", *record, *self.command])


class Outcome(NamedTuple):
    """How it ended.

    Attributes:
        code: the script's exit code, negative for a signal.
        folder: where the Record is.
        record: what happened, over all attempts.
        job: what was run.
        kept: the bytes of checkpoints that are there to go on from.
    """

    code: int
    folder: Path
    record: Record
    job: Job
    kept: int = 0
