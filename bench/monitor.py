"""Training with MemoryMonitor against without: time of an epoch; and what one point costs."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measure import Ratio, interleaved, interval, seconds


def run() -> Iterator[Ratio]:
    with tempfile.TemporaryDirectory() as folder:
        before = Path.cwd()
        os.chdir(folder)
        try:
            for name, epochs, guarded in (
                ("mlp", 10, False),
                ("mlp", 10, True),
                ("cnn", 10, False),
                ("transformer", 8, False),
            ):
                yield _time(name, epochs, guarded)
            yield _point(Path(folder))
        finally:
            os.chdir(before)


def _time(name: str, epochs: int, guarded: bool) -> Ratio:
    """Some seconds of training, so that several points are taken in each."""
    import fitroom
    from bench.models import case
    from fitroom.callbacks import MemoryMonitor

    chosen = case(name)
    plain, watched = chosen.build(), chosen.build()
    if guarded:
        fitroom.guard(plain), fitroom.guard(watched)
    monitor, data = MemoryMonitor(verbose=0), chosen.steady_dataset()

    def train(model: Any, callbacks: list[Any]) -> Any:
        return lambda: model.fit(data, epochs=epochs, verbose=0, callbacks=callbacks)

    title = f"{name}{', guarded' if guarded else ''}: with the monitor ÷ without"
    return interleaved(title, train(watched, [monitor]), train(plain, []), pairs=15, goal=1.02)


def _point(folder: Path) -> Ratio:
    """What a look takes, in shares of the second between two."""
    from fitroom.devices.progress import Progress
    from fitroom.devices.timeline_file import TimelineFile
    from fitroom.devices.watching import Watch

    watch = Watch(os.getpid(), TimelineFile(folder / "point.jsonl"))
    watch.look(None)
    taken = [seconds(lambda: watch.look(Progress())) for _ in range(200)]
    low, high = interval(taken)
    return Ratio("one point, of the second between two", statistics.median(taken), low, high, 0.02)
