"""What a run was, kept beside its Record: whoever goes on with it finds it there."""

from __future__ import annotations

import dataclasses
import itertools
import json
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fitroom.core import Record
from fitroom.errors import FitroomError, UsageError
from fitroom.supervisor import run_folder
from fitroom.supervisor.job import Job
from fitroom.supervisor.less import Settings
from fitroom.training import checkpoint_files, script_files

_FILE = "run.json"
_SCHEMA = "fitroom/run/1"


@dataclass(frozen=True)
class Kept:
    """A run, as it is written down.

    Attributes:
        job: what was asked for.
        settings: how its last attempt ran.
        seed: what decides whatever the script leaves to chance.
        source: the script's text when it began; None for a module.
    """

    job: Job
    settings: Settings
    seed: int
    source: str | None

    @classmethod
    def new(cls, job: Job, settings: Settings) -> Kept:
        """A run that begins now."""
        return cls(job, settings, secrets.randbits(62), _text(job))

    def write(self, folder: Path) -> None:
        """Write it down; where that cannot be, the run goes on, and cannot be gone on with by another."""
        values = {"schema": _SCHEMA, **dataclasses.asdict(self)}
        temporary = folder / f"{_FILE}.writing"
        try:
            temporary.write_text(json.dumps(values, indent=1))
            temporary.replace(folder / _FILE)
        except OSError:  # the record tells of it
            return

    @classmethod
    def read(cls, folder: Path) -> Kept:
        """The run that is written down in a folder.

        Raises:
            UsageError: if none is.
        """
        try:
            values = json.loads((folder / _FILE).read_text())
            if values.pop("schema") != _SCHEMA:
                raise ValueError("another release's")
            job, settings = values["job"], values["settings"]
            job |= {"arguments": tuple(job["arguments"]), "allow": tuple(job["allow"])}
            job |= {name: tuple(job.get(name, ())) for name in ("under", "beside")}
            return cls(Job(**job), Settings(**settings), values["seed"], values["source"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(
                "This run cannot be gone on with: what it was cannot be read",
                received=f"{folder / _FILE} ({error})",
                hint="the same command without --resume, which begins anew",
            ) from error


def find(job: Job) -> tuple[Path, Kept] | None:
    """The run to go on with; None where there is none yet.

    Raises:
        UsageError: if it has come to its end, was another one, or the script has changed since.
    """
    folder = run_folder.last(job.script, job.record)
    if folder is None:
        if not job.script:
            raise UsageError("There is no run to go on with here", hint="fitroom run train.py, with your script")
        return None
    kept = Kept.read(folder)
    ended = Record.read(folder / run_folder.RECORD).of("ended")
    if ended and ended[-1].data["code"] == 0:
        hint = f"{kept.job.typed()}, which begins anew"
        raise UsageError("The last run came to its end: nothing is left to do", received=str(folder), hint=hint)
    if job.script and job.command != kept.job.command:
        received = " ".join(job.command)
        hint = f"fitroom run --resume {' '.join(kept.job.command)}"
        raise UsageError("The last run was another one", received=received, hint=hint)
    changed = what_changed(kept, folder)
    if changed is not None:
        raise Changed(changed, folder)
    asked = {name: getattr(job, name) for name in ("budget", "plan", "every") if getattr(job, name) is not None}
    given = replace(kept.job, **asked, allow=job.allow or kept.job.allow, record=job.record, resume=True)
    given = replace(given, under=job.under, beside=job.beside)
    return folder, replace(kept, job=given)


class Changed(FitroomError):
    """The script is no longer what it was when the run began."""

    def __init__(self, what: str, folder: Path) -> None:
        super().__init__(
            f"The run cannot be gone on with: {what}",
            received=f"the checkpoints in {folder}, which are kept",
            hint="the script as it was; or the same command without --resume, which begins anew",
        )


def what_changed(kept: Kept, folder: Path) -> str | None:
    """What is no longer as it was when the run began, in words; None where nothing is."""
    now = _text(kept.job)
    if now is None and kept.source is not None:
        return f"{kept.job.script} is gone"
    if now is not None and kept.source is not None and now != kept.source:
        return f"{kept.job.script} has changed {_where(kept.source, now)}"
    for name, before in _files(folder).items():
        path = Path(name)
        if not path.exists():
            return f"{name}, which it imports, is gone"
        if script_files.checksum(path.read_bytes()) != before:
            return f"{name} has changed, which it imports"
    return None


def _files(folder: Path) -> dict[str, Any]:
    """The files that the script consisted of when its last checkpoint was made."""
    newest = checkpoint_files.Folder(folder / run_folder.CHECKPOINTS).newest()
    try:
        return dict(checkpoint_files.about(newest)["files"]) if newest is not None else {}
    except checkpoint_files.Damaged:
        return {}


def _text(job: Job) -> str | None:
    if job.is_module:
        return None
    try:
        path = Path(job.script)
        return (path / "__main__.py" if path.is_dir() else path).read_text(errors="replace")
    except OSError:
        return None


def _where(before: str, now: str) -> str:
    """Where two texts begin to differ."""
    lines = enumerate(itertools.zip_longest(before.splitlines(), now.splitlines(), fillvalue=""), 1)
    for number, (old, new) in lines:
        if old != new:
            return f"in line {number} ({old.strip()!r} has become {new.strip()!r})"
    return "in its line ends"
