"""`fitroom.plan`: how to fit the memory there is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from fitroom import devices
from fitroom.core import Budget, Plan, Remedy
from fitroom.estimator.estimating import Estimate, estimate
from fitroom.planner import choose
from fitroom.remedies import micro_batch, read_allowed, read_plan, recompute
from fitroom.steps import mixing

_WORTH_IT = 0.9  # of the plain peak: recomputation that saves less is not offered


def plan(
    model: Any,
    batch_size: int = 32,
    budget: int | str | Budget | None = None,
    allow: str | tuple[str, ...] | list[str] = (),
    x: Any = None,
    y: Any = None,
) -> Plan:
    """How to train this model at this batch size within a budget: the quickest way that fits and keeps the math.

    Args:
        model: a compiled Keras model.
        batch_size: how many samples a step has.
        budget: how many bytes may be used, such as "8GiB"; None for what there is.
        allow: remedies that may change the math, by name.
        x, y: a few samples with their targets, where the model does not tell what it takes.

    Raises:
        UsageError: if the model cannot be estimated, or the budget or a remedy makes no sense.

    Example:
        >>> found = fitroom.plan(model, batch_size=256, budget="2GiB")
        >>> fitroom.guard(model, plan=found)
    """
    room = budget if isinstance(budget, Budget) else devices.budget(budget)
    allowed = read_allowed(allow)
    obstacles = mixing.obstacles(model)
    return planned(lambda chosen: estimate(model, batch_size, x, y, plan=chosen), room, allowed, obstacles)


def planned(
    estimated: Callable[[Plan], Estimate], room: Budget, allowed: frozenset[str], obstacles: list[mixing.Obstacle]
) -> Plan:
    """The plan for a training.

    Args:
        estimated: what it takes with a plan; asked for with recomputation only where that is needed.
        room: what it has to fit into.
        allowed: remedies that may change the math.
        obstacles: what speaks against slices.
    """
    plain = estimated(Plan())
    if plain.fits(room):
        return choose([_option(plain, room, ())], room)
    return choose(list(_options(plain, estimated, room, allowed, obstacles)), room)


def _options(
    plain: Estimate,
    estimated: Callable[[Plan], Estimate],
    room: Budget,
    allowed: frozenset[str],
    obstacles: list[mixing.Obstacle],
) -> Iterator[Plan]:
    yield _option(plain, room, ())
    chosen = read_plan(recompute.NAME)
    again = estimated(chosen)
    (remedy,) = chosen.remedies
    remedy = dataclasses.replace(
        remedy,
        saves_bytes=max(plain.peak - again.peak, 0),
        time_factor=_slower(plain, again, remedy.time_factor),
    )
    sources: list[tuple[Estimate, tuple[Remedy, ...]]] = [(plain, ())]
    if again.peak < _WORTH_IT * plain.peak:
        yield _option(again, room, (remedy,))
        sources.append((again, (remedy,)))
    may_slice = not obstacles or (micro_batch.NAME in allowed and all(one.can_be_allowed for one in obstacles))
    for source, others in sources if may_slice else ():
        size = source.fitting_slice(room)
        if 0 < size < source.batch_size:
            slices = -(-source.batch_size // size)
            yield _option(source, room, (_in_slices(source, slices, exact=not obstacles), *others))


def _option(source: Estimate, room: Budget, remedies: tuple[Remedy, ...]) -> Plan:
    slices = Plan(remedies).setting(micro_batch.NAME)
    sliced = isinstance(slices, int)
    footprint = source.sliced(slices if isinstance(slices, int) else 1)
    if sliced:
        return Plan(remedies, footprint, room)
    is_placed = footprint.worst > room.bytes or source.fits(room)
    return Plan(remedies, footprint, room, largest_batch=source.max_batch(room), is_placed=is_placed)


def _in_slices(source: Estimate, slices: int, *, exact: bool) -> Remedy:
    batch = source.batch_size
    whole, part = source.seconds(batch), source.seconds(-(-batch // slices))
    factor = max(slices * part / whole, 1.0) if whole and part else 1.0
    saves = max(source.peak - source.sliced(slices).peak, 0)
    return dataclasses.replace(micro_batch.remedy(slices, exact=exact), saves_bytes=saves, time_factor=factor)


def _slower(plain: Estimate, again: Estimate, otherwise: float) -> float:
    before, after = plain.seconds(plain.batch_size), again.seconds(again.batch_size)
    return max(after / before, 1.0) if before and after else otherwise
