"""``fitroom diagnose``."""

from __future__ import annotations

import argparse
import sys

from fitroom.errors import UsageError

TYPE_CHECKING = False

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

    from fitroom.core import Diagnosis


class Diagnose:
    """Tell what ran out in a log, why, and what to do.

    Reads what TensorFlow, Keras, XLA, JAX, PyTorch, CUDA, NumPy, the kernel, containers and notebooks say when memory,
    a disk or something else runs out, and tells apart what only looks like it. LOG is a file, - for standard input, or
    the folder of a fitroom run. Logs may be of any size. Exits with 1 if something ran out, with 0 if not.
    """

    name = "diagnose"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument("log", metavar="LOG", help="a log, - for standard input, or the folder of a run")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def run(self, arguments: argparse.Namespace) -> int:
        """Read, and print."""
        found = _diagnosed(arguments.log)
        if arguments.json:
            import json

            from fitroom.core.noun import to_dict

            print(json.dumps(to_dict(found), indent=2, ensure_ascii=False))
        else:
            from rich.console import Console

            Console(highlight=False).print(found)
        return 1 if found.ran_out else 0


def _diagnosed(log: str) -> Diagnosis:
    from pathlib import Path

    from fitroom.supervisor.run_folder import RECORD

    if log == "-":
        return _of_stream(sys.stdin.buffer, "standard input")
    path = Path(log)
    if path.is_dir() or path.name == RECORD:
        return _of_run(path if path.is_dir() else path.parent)
    try:
        with path.open("rb") as file:
            return _of_stream(file, log)
    except OSError as error:
        raise UsageError(
            "Cannot read the log", received=f"{_shown(log)} ({error.strerror})", hint=_near(path)
        ) from None


def _of_stream(stream: BinaryIO, name: str) -> Diagnosis:
    from fitroom.diagnosers import diagnosing

    counted = _Counted(stream)
    found = diagnosing.of_stream(counted)
    if counted.size == 0:
        raise UsageError("The log is empty", received=_shown(name), hint="python train.py 2>&1 | tee train.log")
    return found


class _Counted:
    """A stream, and how much it held."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self.size = stream, 0

    def read(self, size: int, /) -> bytes:
        piece = self._stream.read(size)
        self.size += len(piece)
        return piece


def _of_run(folder: Path) -> Diagnosis:
    from fitroom.core import Record
    from fitroom.diagnosers import diagnosing
    from fitroom.supervisor.run_folder import RECORD

    if not (folder / RECORD).exists():
        expected = f"a log, or a folder with {RECORD}"
        raise UsageError("This folder holds no run", received=_shown(str(folder)), expected=expected)
    return diagnosing.of_record(Record.read(folder / RECORD))


def _near(path: Path) -> str:
    """What may have been meant."""
    import difflib

    folder = path.parent
    there = [str(folder / one.name) for one in folder.iterdir()] if folder.is_dir() else []
    near = difflib.get_close_matches(str(path), there, 1)
    return f"fitroom diagnose {_shown(near[0]) if near else 'train.log, with the path of your log'}"


def _shown(name: str) -> str:
    """A name, harmless to a terminal."""
    return name if name.isprintable() else ascii(name)
