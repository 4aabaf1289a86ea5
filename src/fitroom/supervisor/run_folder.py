"""Where a run keeps its Record: a folder of its own, beside the work."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

from fitroom.errors import UsageError

HOME = ".fitroom"
RECORD = "record.jsonl"


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
        return (
            _asked(Path(wanted)) if wanted is not None else _next(Path(HOME), Path(script).name.removesuffix(".py"))
        ), None
    except OSError as error:
        folder = Path(tempfile.mkdtemp(prefix="fitroom-"))
        return folder, f"cannot write to {error.filename} ({error.strerror}); the record is in {folder}"


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
