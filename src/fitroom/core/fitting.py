"""What fits where: a training of a script, against a budget and against GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from fitroom.core.footprint import Footprint
from fitroom.core.noun import Noun


@dataclass(frozen=True)
class Place:
    """Somewhere that a training may fit.

    Attributes:
        name: a GPU's name, or what is meant by the budget.
        bytes: what the allocator gets there.
        peak: what the step is expected to take there.
        fits: whether it does, by the upper end of its error band.
        largest_batch: the largest batch that does; 0 where none does.
        note: what is to be said of the place: who else uses it.
    """

    name: str
    bytes: int
    peak: int
    fits: bool
    largest_batch: int
    note: str = ""


@dataclass(frozen=True)
class Fitting(Noun):
    """A training of a script: what it takes, and where it fits.

    Attributes:
        where: its place in the script, such as ``train.py:31 fit``.
        footprint: what it takes, at the batch size that was asked for or is the script's own.
        budget: the budget, if one was given.
        gpus: GPUs, those of this machine first.
    """

    where: str
    footprint: Footprint
    budget: Place | None = None
    gpus: tuple[Place, ...] = ()
