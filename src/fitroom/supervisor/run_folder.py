"""Where a run keeps its Record and its checkpoints: a folder of its own, beside the work."""

from __future__ import annotations

import fcntl
import itertools
import os
import tempfile
import time
from pathlib import Path

from fitroom.errors import UsageError

HOME = ".fitroom"
RECORD = "record.jsonl"
CHECKPOINTS = "checkpoints"
_GLANCE = 0.2  # seconds: `is_held` itself holds it, for a moment


def make(script: str, wanted: str | None) -> tuple[Path, str | None]:
    """A folder for a run, and why it is not where it should be; None where it is.

    Args:
        script: what runs, which gives the folder its name.
        wanted: the folder that the user asked for; None for the next free one under ``.fitroom``.

    Raises:
        UsageError: if the folder asked for holds a record already.
    """
    if wanted is not None and (Path(wanted) / RECORD).exists():
        raise UsageError("The folder holds a record already", received=wanted, hint="a folder that is new or empty")
    try:
        return (_asked(Path(wanted)) if wanted is not None else _next(Path(HOME), _name(script))), None
    except OSError as error:
        folder = Path(tempfile.mkdtemp(prefix="fitroom-"))
        return folder, f"cannot write to {error.filename} ({error.strerror}); the record is in {folder}"


def last(script: str, wanted: str | None) -> Path | None:
    """The folder of the last run of a script, or of any where `script` is empty; None where there is none."""
    if wanted is not None:
        return Path(wanted) if (Path(wanted) / RECORD).exists() else None
    found = [path.parent for path in Path(HOME).glob(f"{_name(script) if script else '*'}-*/{RECORD}")]
    numbered = [one for one in found if one.name.rpartition("-")[2].isdigit()]
    if script:
        return max(numbered, key=lambda one: int(one.name.rpartition("-")[2]), default=None)
    return max(numbered, key=lambda one: (one / RECORD).stat().st_mtime, default=None)


def hold(folder: Path) -> int:
    """Have nobody else run in this folder until this process ends; returns the open file that holds it.

    Raises:
        UsageError: if somebody does.
    """
    descriptor = os.open(folder / RECORD, os.O_RDONLY | os.O_CREAT, 0o644)
    until = time.monotonic() + _GLANCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < until:
                time.sleep(_GLANCE / 20)
                continue
            os.close(descriptor)
            hint = "wait for it, or stop it"
            raise UsageError("This run is still under way", received=str(folder), hint=hint) from None
        except OSError:  # a file system without locks
            pass
        return descriptor


def is_held(folder: Path) -> bool:
    """Whether somebody runs in this folder now."""
    try:
        descriptor = os.open(folder / RECORD, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(descriptor)
    return False


def _name(script: str) -> str:
    return Path(script).name.removesuffix(".py")


def _asked(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RECORD).touch(exist_ok=False)
    return folder


def _next(home: Path, name: str) -> Path:
    home.mkdir(exist_ok=True)
    ignore = home / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    taken = [
        int(one.name.rpartition("-")[2]) for one in home.glob(f"{name}-*") if one.name.rpartition("-")[2].isdigit()
    ]
    for number in itertools.count(max(taken, default=0) + 1):
        folder = home / f"{name}-{number}"
        try:
            folder.mkdir()
        except FileExistsError:  # another run, at the same moment
            continue
        (folder / RECORD).touch()
        return folder
    raise AssertionError("numbers do not end")
