"""Watches a training from beside it: a point for the timeline at each look, and what there is to tell.

Looks at the process (`usage`), at the GPUs (`gpu_use`) and at what the training says of itself (`progress`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import NamedTuple

from fitroom.core.noun import Scalar
from fitroom.devices.gpu_use import Change, GpuUse, GpuWatch, Neighbours
from fitroom.devices.progress import Progress
from fitroom.devices.timeline import point
from fitroom.devices.timeline_file import TimelineFile
from fitroom.devices.usage import Usage
from fitroom.devices.waiting import Figures, Pipeline, Waiting, verdict
from fitroom.units import MIB

_WINDOW = 10  # stretches of a training, over which it is judged
_SHORT = 0.9  # seconds: a shorter stretch is one with the next
_SETTLED = 5.0  # seconds that they last at least
_RATES = ("cpu", "read", "received", "stalled", "gpu")

Told = tuple[str, dict[str, Scalar]]  # an event: its kind, and its data


class Stretch(NamedTuple):
    """What happened between two looks, or several.

    Attributes:
        seconds: how long it was.
        steps: steps made in it.
        waited: seconds of it that were spent waiting for batches.
        stepped: seconds of it that were spent in steps.
        rates: what was used, by name.
    """

    seconds: float
    steps: int
    waited: float
    stepped: float
    rates: dict[str, float]

    @property
    def lasted(self) -> float:
        """Seconds; a long step, and the wait before it, may have begun before the last look."""
        return max(self.seconds, self.waited + self.stepped)

    def figures(self, cores: float, pipeline: Pipeline | None) -> Figures:
        """As what a verdict is made of."""
        return Figures(
            waited=self.waited / self.lasted if self.lasted > 0 else 0.0,
            step=self.stepped / max(self.steps, 1),
            pipeline=pipeline,
            cores=cores,
            **{name: self.rates.get(name) for name in _RATES},
        )


def together(stretches: Iterable[Stretch]) -> Stretch:
    """Stretches as one; rates are means over their time."""
    seconds, steps, waited, stepped = 0.0, 0, 0.0, 0.0
    rates: dict[str, tuple[float, float]] = {}
    for one in stretches:
        seconds, steps = seconds + one.seconds, steps + one.steps
        waited, stepped = waited + one.waited, stepped + one.stepped
        for name, value in one.rates.items():
            amount, over = rates.get(name, (0.0, 0.0))
            rates[name] = amount + value * one.seconds, over + one.seconds
    return Stretch(seconds, steps, waited, stepped, {name: a / b for name, (a, b) in rates.items() if b > 0})


class Watch:
    """A training, watched.

    Args:
        pid: its process.
        file: takes the points.
        budget: what was asked for, in bytes; None for what there is.
    """

    def __init__(self, pid: int, file: TimelineFile, budget: int | None = None) -> None:
        self.file = file
        self.cards: list[GpuUse] = []
        self._budget = budget
        self._usage = Usage(pid)
        self._gpus = GpuWatch()
        self._neighbours = Neighbours()
        self._strangers: set[int] = set()  # processes on a GPU that are not ours
        self._before: tuple[float, Progress] | None = None
        self._pipelines: deque[Pipeline] = deque(maxlen=_WINDOW)  # as they were seen last
        self._recent: deque[Stretch] = deque(maxlen=_WINDOW)
        self._whole = together(())
        self._told: set[str] = set()  # what it waited for

    def look(self, progress: Progress | None) -> list[Told]:
        """Take a point, and return what there is to tell."""
        values = self._usage.look()
        self.cards = self._look_at_gpus()
        for card in self.cards:
            values |= card.values()
        busy = [card.use for card in self.cards if card.use is not None]
        if busy:
            values["gpu"] = max(busy)
        if progress is not None:
            values |= self._of_training(progress, values)
        self.file.add(point(round(time.time(), 3), {name: _rounded(value) for name, value in values.items()}))
        told = [_neighbour(one, self._budget) for one in self._neighbours.look(self.cards)]
        waits = self._newly_waits_for()
        return [*told, ("waiting", dict(asdict(waits)))] if waits is not None else told

    def _look_at_gpus(self) -> list[GpuUse]:
        cards = self._gpus.look(self._usage.pids)
        if {one.pid for card in cards for one in card.others} - self._strangers:  # or has the script started it?
            self._usage.find_family()
            cards = self._gpus.look(self._usage.pids)
            self._strangers = {one.pid for card in cards for one in card.others}
        return cards

    def waits_for(self) -> Waiting | None:
        """What the training has waited for, all in all."""
        if not self._whole.steps:
            return None
        return verdict(self._whole.figures(self._usage.cores, fullest(self._pipelines)))

    def came_to(self, progress: Progress) -> None:
        """Take down how far a training came that is over: its last steps were made since the last look."""
        self.file.add(point(round(time.time(), 3), {"made": progress.steps}))

    def let_go(self) -> None:
        """Let go of the driver."""
        self._gpus.close()

    def _of_training(self, progress: Progress, values: dict[str, float]) -> dict[str, float]:
        now = time.monotonic()
        found: dict[str, float] = {"made": progress.steps}
        if progress.device is not None:
            found |= {"device": progress.in_use, "device_peak": progress.peak, "device_limit": progress.limit}
        if progress.pipeline is not None:
            self._pipelines.append(progress.pipeline)
        before, self._before = self._before, (now, progress)
        if before is None or progress.steps < before[1].steps:  # the first look, or the script was started again
            return found
        seconds, last = now - before[0], before[1]
        waited, stepped = progress.waited - last.waited, progress.stepped - last.stepped
        found["steps"] = (progress.steps - last.steps) / seconds
        found["waiting"], found["stepping"] = waited / seconds, stepped / seconds  # of steps that ended: may be above 1
        if progress.steps > last.steps:
            rates = {name: values[name] for name in _RATES if name in values}
            # Until its first step is traced, a training neither waits nor steps.
            lasted = seconds if self._whole.steps else min(seconds, waited + stepped)
            stretch = Stretch(lasted, progress.steps - last.steps, waited, stepped, rates)
            short = self._recent.pop() if self._recent and self._recent[-1].seconds < _SHORT else together(())
            self._recent.append(together((short, stretch)))
            self._whole = together((self._whole, stretch))
        return found

    def _newly_waits_for(self) -> Waiting | None:
        recent = together(self._recent)
        if recent.lasted < _SETTLED:
            return None
        found = verdict(recent.figures(self._usage.cores, fullest(self._pipelines)))
        if found is None or found.what in self._told:
            return None
        self._told.add(found.what)
        return found


def fullest(seen: Sequence[Pipeline]) -> Pipeline | None:
    """What is known of a pipeline that was seen lately: the latest, unless stages are missing, as at the data's end."""
    most = max((one.seconds for one in seen), default=0.0)
    return next((one for one in reversed(seen) if one.seconds >= most / 2), None)


def _rounded(value: float) -> float:
    """As many digits as anybody reads: a file of many points is half as long."""
    return float(round(value)) if value >= 1000 else round(value, 4)


def _neighbour(change: Change, budget: int | None) -> Told:
    """Another process has grown, or has given back: what that leaves to us is the budget in force."""
    left = change.left if budget is None else min(budget, change.left)
    name = change.process.name.rpartition("/")[2]
    data: dict[str, Scalar] = {"device": change.device, "pid": change.process.pid, "name": name}
    data |= {"used": change.process.used, "before": change.before, "budget_mib": left // MIB}
    return "neighbour", data
