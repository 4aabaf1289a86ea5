"""The remedies chosen for a training, and the footprint expected of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fitroom.core.budget import Budget
from fitroom.core.footprint import Footprint
from fitroom.core.noun import Noun
from fitroom.core.remedy import Remedy


@dataclass(frozen=True)
class Plan(Noun):
    """What is done so that a training fits.

    Attributes:
        remedies: in the order in which they are carried out; none at all is plain training.
        footprint: what the training is expected to need with them; None for a plan made by hand.
        budget: what it has to fit into; None for a plan made by hand.
        reason: why these remedies, in words.
        largest_batch: the largest batch that would fit the budget with them; None where that is not known.
        alternatives: what else was weighed, best first.
        is_placed: False where the allocator finds no place for a request, though the sum would fit.
    """

    remedies: tuple[Remedy, ...] = ()
    footprint: Footprint | None = None
    budget: Budget | None = None
    reason: str = ""
    largest_batch: int | None = None
    alternatives: tuple[Plan, ...] = ()
    is_placed: bool = True

    @property
    def exact(self) -> bool:
        """Whether every remedy keeps the math."""
        return all(remedy.exact for remedy in self.remedies)

    @property
    def time_factor(self) -> float:
        """Expected step time with it ÷ plain."""
        return math.prod(remedy.time_factor for remedy in self.remedies)

    @property
    def fits(self) -> bool | None:
        """Whether the worst case of the footprint is within the budget; None where either is not known."""
        if self.footprint is None or self.budget is None:
            return None
        return self.is_placed and self.footprint.worst <= self.budget.bytes

    def setting(self, name: str) -> int | str | None:
        """The setting of the remedy called `name`; None where it is not in the plan."""
        return next((remedy.setting for remedy in self.remedies if remedy.name == name), None)

    def __str__(self) -> str:
        """The short form, such as ``micro_batch=4, recompute``."""
        return ", ".join(map(str, self.remedies)) or "plain"
