"""How far a training is, from its own process: a small file that is written over, for who watches from outside."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from fitroom.core.noun import decode, dump, parse
from fitroom.devices.waiting import Pipeline
from fitroom.errors import SchemaError

FOLDER = "progress"  # in a run's folder: a file for each process that trains
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


def newest(folder: Path) -> Progress | None:
    """What the process that wrote last has told; None where none has."""
    try:
        found = max(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns, default=None)
        text = found.read_text(encoding="utf-8", errors="replace") if found is not None else ""
    except OSError:
        return None
    try:
        told: Progress = decode(Progress, parse(text), "Progress")
    except SchemaError:  # it was being written
        return None
    return told
