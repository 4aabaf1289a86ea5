"""What a user, or the supervisor, wants of the guard."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

from fitroom import devices
from fitroom.core import Plan
from fitroom.remedies import check_allowed, read_allowed, read_plan
from fitroom.units import format_bytes


@dataclass(frozen=True)
class Options:
    """How to guard.

    Attributes:
        plan: what to do from the start.
        allow: the remedies that may change the math.
        budget: how many bytes may be used; None for what the device has.
        careful: into how many slices batches go from the start, where that keeps the math; elsewhere activations are
            computed again. 1 for whole batches until memory runs out.
        hint: what a user types to allow slices; None where the guard knows better.
        looks_ahead: whether what may not fit is planned before its first step.
    """

    plan: Plan = field(default_factory=Plan)
    allow: frozenset[str] = frozenset()
    budget: int | None = None
    careful: int = 1
    hint: str | None = None
    looks_ahead: bool = True

    @classmethod
    def read(
        cls,
        budget: int | str | None = None,
        allow: str | tuple[str, ...] | list[str] = (),
        plan: Plan | str | None = None,
        careful: int = 1,
        hint: str | None = None,
    ) -> Options:
        """Options as they are written.

        Raises:
            UsageError: if the budget, a remedy or the plan makes no sense.
        """
        chosen, allowed = read_plan(plan), read_allowed(allow)
        check_allowed(chosen, allowed)
        return cls(chosen, allowed, _enforced(budget), careful, hint, looks_ahead=plan is None)


def _enforced(asked: int | str | None) -> int | None:
    """The budget in bytes; where TensorFlow runs already and cannot keep to it any more, a warning says so."""
    if asked is None:
        return None
    budget = devices.enforce(devices.budget(asked))
    if not budget.enforced:
        warnings.warn(
            f"The budget of {format_bytes(budget.bytes)} only decides how large slices are: TensorFlow has started "
            "without this limit and may take more",
            stacklevel=4,
        )
    return budget.bytes
