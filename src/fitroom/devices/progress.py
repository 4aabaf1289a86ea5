"""How far a training is, from its own process: a small file that is written over, for who watches from outside."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from fitroom.core.noun import decode, dump, parse
from fitroom.devices.waiting import Pipeline
from fitroom.errors import SchemaError

FOLDER = "progress"  # in a run's folder: a file for each process that trains
_SETTLED = 2_000_000_000  # nanoseconds: a file that was written before that is known as it is
_WIDTH = 1024  # bytes: always the same, so that a shorter text covers a longer one


@dataclass(frozen=True)
class Progress:
    """How far a process has come.

    Attributes:
        steps: made so far, of all trainings.
        waited: seconds spent waiting for a batch.
        stepped: seconds spent in steps.
        device: whose allocator counts, as TensorFlow says it; None where none does.
        in_use: its bytes in use between two steps.
        peak: its most bytes in use since it was last asked; since the beginning, where nobody counts per step.
        limit: what it may take.
        pipeline: where batches come from; only where they were waited for.
    """

    steps: int = 0
    waited: float = 0.0
    stepped: float = 0.0
    device: str | None = None
    in_use: int = 0
    peak: int = 0
    limit: int = 0
    pipeline: Pipeline | None = None


class ProgressFile:
    """The file of one process; where it cannot be written, the training goes on without."""

    def __init__(self, folder: Path, pid: int) -> None:
        self._descriptor: int | None = None
        with suppress(OSError):
            folder.mkdir(exist_ok=True)
            self._descriptor = os.open(folder / f"{pid}.json", os.O_WRONLY | os.O_CREAT, 0o644)

    def write(self, progress: Progress) -> None:
        """Put it in the place of what was there."""
        text = dump(asdict(progress)).encode()
        if self._descriptor is not None and len(text) < _WIDTH:
            with suppress(OSError):
                os.pwrite(self._descriptor, text.ljust(_WIDTH - 1) + b"\n", 0)


class Processes:
    """What the processes of a run have told: one after the other, or several that train beside each other.

    Args:
        folder: where their files are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._told: dict[str, tuple[int, Progress]] = {}  # by file: when it was written, and what was in it

    def together(self) -> Progress | None:
        """The steps and times of all, and the memory of the one that wrote last; None where none has."""
        with suppress(OSError):
            for path in self._folder.iterdir():
                self._read(path)
        if not self._told:
            return None
        _, last = max(self._told.values(), key=lambda one: one[0])
        all_ = [one for _, one in self._told.values()]
        steps, waited, stepped = (sum(getattr(one, name) for one in all_) for name in ("steps", "waited", "stepped"))
        return replace(last, steps=steps, waited=waited, stepped=stepped)

    def _read(self, path: Path) -> None:
        known = self._told.get(path.name)
        with suppress(SchemaError, OSError):  # it is being written: what it told before stands
            written = path.stat().st_mtime_ns
            if known is not None and known[0] == written and time.time_ns() - written > _SETTLED:
                return
            text = path.read_text(encoding="utf-8", errors="replace")
            self._told[path.name] = written, decode(Progress, parse(text), "Progress")
