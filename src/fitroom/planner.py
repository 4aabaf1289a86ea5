"""Footprints and a Budget → a Plan: what keeps the math, fits, and takes the least time. Pure arithmetic."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from fitroom.core import Budget, Plan
from fitroom.units import format_bytes

_SAME_TIME = 0.05  # times that differ by less are not told apart: the simpler plan wins


def choose(options: Sequence[Plan], budget: Budget) -> Plan:
    """The best of several plans, with the reason, and the others as its alternatives.

    Args:
        options: plans with their footprints; the first one is plain training.
        budget: what they have to fit into.
    """
    known = [dataclasses.replace(one, budget=budget) for one in options]
    ranked = sorted(known, key=_rank)
    best = ranked[0]
    return dataclasses.replace(best, reason=_reason(best, known), alternatives=tuple(ranked[1:]))


def _rank(plan: Plan) -> tuple[bool, bool, int, int]:
    """What fits comes first, then what is exact, then what is quick; of what does not fit, the smallest."""
    assert plan.footprint is not None
    if not plan.fits:
        return True, False, plan.footprint.worst, len(plan.remedies)
    return False, not plan.exact, round(plan.time_factor / _SAME_TIME), len(plan.remedies)


def _reason(best: Plan, options: Sequence[Plan]) -> str:
    plain = options[0]
    assert best.footprint is not None and plain.footprint is not None and best.budget is not None
    there = f"{format_bytes(best.budget.bytes)} are there"
    pieces = "" if plain.is_placed else ", in pieces that are too small"
    needs = f"plain training needs up to {format_bytes(plain.footprint.worst)}, {there}{pieces}"
    if not best.fits:
        least = format_bytes(best.footprint.worst)
        return f"Nothing fits: {needs}; the smallest need is {least}, with {best}."
    if not best.remedies:
        return f"It fits as it is: {needs}."
    quicker = [one for one in options if one.time_factor < best.time_factor and one.remedies]
    too_large = [str(one) for one in quicker if not one.fits]
    changes = [str(one) for one in quicker if one.fits and not one.exact]
    reasons = [f"{needs[0].upper()}{needs[1:]}; {best} is the quickest that fits"]
    if best.exact:
        reasons[0] += " and keeps the math"
    if too_large:
        reasons.append(f"quicker, but too large: {' | '.join(too_large)}")
    if changes:
        reasons.append(f"quicker, but with another result: {' | '.join(changes)}")
    return "; ".join(reasons) + "."
