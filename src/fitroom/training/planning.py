"""`fitroom.plan`: how to fit the memory there is."""

from __future__ import annotations

from typing import Any

from fitroom import devices
from fitroom.core import Budget, Plan
from fitroom.estimator.estimating import estimate
from fitroom.planner import choose
from fitroom.remedies import micro_batch, read_allowed
from fitroom.steps import mixing
from fitroom.training import weighing
from fitroom.training.weighing import Estimated


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
    estimated: Estimated,
    room: Budget,
    allowed: frozenset[str],
    obstacles: list[mixing.Obstacle],
    *,
    turns: bool = True,
    is_running: bool = False,
) -> Plan:
    """The plan for a training.

    Args:
        estimated: what it takes with a plan; asked for only where that is needed.
        room: what it has to fit into; on several replicas what they share, or each has. Once it is running, each one's.
        allowed: remedies that may change the math.
        obstacles: what speaks against slices.
        turns: whether turning the model itself over is weighed, too.
        is_running: whether it is about to begin in this process: no new one can be started for it, and evaluations are
            looked at when they begin.
    """
    may_slice = not obstacles or (micro_batch.NAME in allowed and all(one.can_be_allowed for one in obstacles))
    question = weighing.Question(estimated, room, allowed, may_slice, keeps_math=not obstacles, restarts=not is_running)
    if not is_running:
        question = weighing.per_replica(question)
    found = choose(weighing.options(question, turns=turns), question.room)
    return found if is_running else weighing.with_evaluation(found, question)
