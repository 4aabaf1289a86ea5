"""An estimate against a budget, and against GPUs."""

from __future__ import annotations

import dataclasses
from typing import Any

from fitroom.core import Fitting, Footprint, Place
from fitroom.estimator.estimating import Estimate


def fitting(where: str, estimate: Estimate, told: dict[str, Any]) -> Fitting:
    """Where a training fits.

    Args:
        where: its place in the script.
        estimate: what it takes.
        told: the budget in bytes, or None; and GPUs with their bytes and what is to be said of each.
    """
    budget = told["budget"]
    gpus = told["gpus"]
    plain = Footprint(**{field.name: getattr(estimate, field.name) for field in dataclasses.fields(Footprint)})
    return Fitting(
        where,
        plain,
        None if budget is None else _place("the budget", budget, estimate, ""),
        tuple(_place(name, size, estimate.on_gpu, note) for name, size, note in gpus),
    )


def _place(name: str, size: int, estimate: Estimate, note: str) -> Place:
    return Place(name, size, estimate.peak, estimate.worst, estimate.max_batch(size), note)
