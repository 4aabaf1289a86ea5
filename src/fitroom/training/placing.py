"""What is asked of a training: where it fits, or how to make it fit."""

from __future__ import annotations

import dataclasses
from typing import Any

from fitroom.core import Budget, Fitting, Footprint, Place
from fitroom.estimator.estimates import Estimate
from fitroom.remedies import read_plan
from fitroom.training.planning import planned
from fitroom.training.trainings import Training


def answer(training: Training, told: dict[str, Any]) -> dict[str, str]:
    """The answer to what was asked, as JSON.

    Args:
        training: which one.
        told: either `plan_for`, a Budget, and what is allowed; or the plan to estimate it with, a budget in bytes or
            None, and GPUs with their bytes and what is to be said of each.
    """
    if told["plan_for"] is not None:
        room = Budget.from_json(told["plan_for"])
        found = planned(training.estimate, room, frozenset(told["allow"]), training.obstacles())
        return {"where": training.where, "plan": found.to_json()}
    estimate = training.estimate(read_plan(told["plan"]))
    plain = Footprint(**{field.name: getattr(estimate, field.name) for field in dataclasses.fields(Footprint)})
    budget = None if told["budget"] is None else _place("the budget", told["budget"], estimate, "")
    gpus = tuple(_place(name, size, estimate.on_gpu, note) for name, size, note in told["gpus"])
    return {"fitting": Fitting(training.where, plain, budget, gpus).to_json()}


def _place(name: str, size: int, estimate: Estimate, note: str) -> Place:
    return Place(name, size, estimate.peak, estimate.fits(size), estimate.max_batch(size), note)
