"""What a training takes with remedies → the plans to choose from, each with its footprint, its time and its result.

Plain training is estimated first. Slices are arithmetic on that; recomputation is estimated where they do not do, or
would take much more time. What turns the model itself over (XLA, precision, the optimizer) is estimated only where
nothing of this fits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from fitroom.core import Budget, Plan, Remedy
from fitroom.errors import UsageError
from fitroom.estimator.estimates import Estimate
from fitroom.remedies import allocator, eval_batch, lean_optimizer, micro_batch, mixed_precision, recompute, xla

_WORTH_IT = 0.9  # of the plain peak: recomputation that saves less is not offered
_NO_SLOWER = 1.05  # times that differ by less are not told apart

Estimated = Callable[[Plan], Estimate]


@dataclasses.dataclass(frozen=True)
class Question:
    """What is to be planned.

    Attributes:
        estimated: what the training takes with a plan; asked for only where that is needed.
        room: what it has to fit into.
        allowed: remedies that may change the math.
        may_slice: whether batches may be cut.
        keeps_math: whether slices keep the math.
        restarts: whether a new process can be started for it.
        known: what was estimated, by plan.
    """

    estimated: Estimated
    room: Budget
    allowed: frozenset[str]
    may_slice: bool
    keeps_math: bool
    restarts: bool = True
    known: dict[str, Estimate] = dataclasses.field(default_factory=dict)


def per_replica(question: Question) -> Question:
    """The same for one of the replicas that share a batch, where there are several."""
    replicas = len(_estimated(question, ()).replicas)
    return dataclasses.replace(question, room=question.room.per_replica(max(replicas, 1)))


def options(question: Question, *, turns: bool = True) -> list[Plan]:
    """The plans to choose from, plain training first; only that where it fits.

    Args:
        question: what is asked.
        turns: whether turning the model over is weighed, too.
    """
    plain = _estimated(question, ())
    found = list(_ways(question, plain, ()))
    if not any(one.fits for one in found) and turns:
        for remedies in _turns(question, plain):
            if any(one.fits for one in found) and not all(one.exact for one in remedies):
                break  # what keeps the math comes first
            try:
                turned = _estimated(question, remedies)
            except UsageError:
                continue  # this model cannot be turned so
            found += _ways(question, turned, _measured(plain, turned, remedies))
    return found


def with_evaluation(plan: Plan, question: Question) -> Plan:
    """The plan with smaller evaluations, where a whole batch's would not fit.

    Where the step fits in one piece, so does an evaluation, which keeps less: it is looked at in slices only.
    """
    if plan.setting(micro_batch.NAME) is None or not plan.fits:
        return plan
    try:
        turned = tuple(one for one in plan.remedies if one.name not in (micro_batch.NAME, recompute.NAME))
        evaluation = _estimated(question, turned).evaluation
    except UsageError:  # not every model that trains can be evaluated
        return plan
    size = evaluation.max_batch(question.room)
    if size < 1 or evaluation.fits(question.room):
        return plan
    saves = max(evaluation.peak - evaluation.at(size).peak, 0)
    remedy = dataclasses.replace(eval_batch.remedy(size), saves_bytes=saves)
    return dataclasses.replace(plan, remedies=(*plan.remedies, remedy))


def _estimated(question: Question, remedies: tuple[Remedy, ...]) -> Estimate:
    plan = Plan(remedies)
    if str(plan) not in question.known:
        found = question.estimated(plan)
        question.known[str(plan)] = found.on_gpu if question.room.kind == "gpu" else found
    return question.known[str(plan)]


def _turns(question: Question, plain: Estimate) -> Iterator[tuple[Remedy, ...]]:
    """Ways to turn the model over, those that keep the math first."""
    if not plain.replicas:  # XLA compiles for one device
        yield (xla.remedy(xla.OFF if plain.is_compiled else xla.ON),)
    precision = mixed_precision.FLOAT16 if question.room.kind == "gpu" else mixed_precision.BFLOAT16
    half, lean = (mixed_precision.remedy(precision),), (lean_optimizer.remedy(),)
    both = mixed_precision.NAME in question.allowed, lean_optimizer.NAME in question.allowed
    yield from [half] if both[0] else []
    yield from [lean] if both[1] else []
    yield from [half + lean] if all(both) else []


def _measured(plain: Estimate, turned: Estimate, remedies: tuple[Remedy, ...]) -> tuple[Remedy, ...]:
    """The remedies with what they save and cost together, the first one standing for all."""
    saves, factor = max(plain.peak - turned.peak, 0), _slower(plain, turned, 1.0)
    first = dataclasses.replace(remedies[0], saves_bytes=saves, time_factor=factor)
    return first, *remedies[1:]


def _ways(question: Question, base: Estimate, turned: tuple[Remedy, ...]) -> Iterator[Plan]:
    """A model as it is, or turned over: whole, recomputed, in slices, in recomputed slices."""
    whole = _option(question, base, turned)
    yield whole
    if whole.fits:
        return
    can_pool = question.restarts or allocator.is_set(allocator.ASYNC)
    if not whole.is_placed and question.room.kind == "gpu" and can_pool:
        pooled = dataclasses.replace(whole, remedies=(allocator.remedy(allocator.ASYNC), *turned), is_placed=True)
        yield pooled
    if question.may_slice and question.keeps_math:
        in_slices = list(_sliced(question, base, turned))
        yield from in_slices
        if any(one.fits and one.time_factor <= _NO_SLOWER * whole.time_factor for one in in_slices):
            return  # nothing that keeps the math could be quicker
    chosen = recompute.remedy()
    again = _estimated(question, (*turned, chosen))
    if again.peak < _WORTH_IT * base.peak:
        factor = max(_slower(base, again, chosen.time_factor), 1.0)
        chosen = dataclasses.replace(chosen, saves_bytes=base.peak - again.peak, time_factor=factor)
        yield _option(question, again, (*turned, chosen))
        if question.may_slice:
            yield from _sliced(question, again, (*turned, chosen))
    if question.may_slice and not question.keeps_math:
        yield from _sliced(question, base, turned)


def _sliced(question: Question, source: Estimate, others: tuple[Remedy, ...]) -> Iterator[Plan]:
    """As few slices as fit, where any do."""
    size = source.fitting_slice(question.room)
    if 0 < size < source.batch_size:
        slices = _in_slices(source, -(-source.batch_size // size), exact=question.keeps_math)
        yield _option(question, source, (slices, *others))


def _option(question: Question, source: Estimate, remedies: tuple[Remedy, ...]) -> Plan:
    slices = Plan(remedies).setting(micro_batch.NAME)
    if isinstance(slices, int):
        return Plan(remedies, source.sliced(slices), question.room)
    is_placed = source.worst > question.room.bytes or source.fits(question.room)
    return Plan(
        remedies,
        source.sliced(1),
        question.room,
        largest_batch=source.max_batch(question.room),
        is_placed=is_placed,
    )


def _in_slices(source: Estimate, slices: int, *, exact: bool) -> Remedy:
    batch = source.batch_size
    whole, part = source.seconds(batch), source.seconds(-(-batch // slices))
    factor = max(slices * part / whole, 1.0) if whole and part else 1.0
    saves = max(source.peak - source.sliced(slices).peak, 0)
    return dataclasses.replace(micro_batch.remedy(slices, exact=exact), saves_bytes=saves, time_factor=factor)


def _slower(before: Estimate, after: Estimate, otherwise: float) -> float:
    one, other = before.seconds(before.batch_size), after.seconds(after.batch_size)
    return other / one if one and other else otherwise
