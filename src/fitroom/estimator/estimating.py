"""`fitroom.estimate`: the memory of a training, before it runs."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import operator
import warnings
from collections.abc import Callable
from typing import Any, Literal

import keras

from fitroom.core import Budget, Plan
from fitroom.core.footprint import Footprint
from fitroom.errors import FitroomError, UsageError
from fitroom.estimator import given, samples
from fitroom.estimator.footprints import Footprints, Kind, Names, Resident
from fitroom.estimator.measurement import Measurement
from fitroom.estimator.measuring import CannotBeMeasured, measure
from fitroom.estimator.replay import Replay
from fitroom.estimator.shipping import CannotBeRebuilt, pack
from fitroom.estimator.tape import resident
from fitroom.estimator.tracing import trace
from fitroom.remedies import read_plan, recompute, turns
from fitroom.steps.turning import turn
from fitroom.units import parse_bytes

_BANDS = {"measured": 0.06, "compiled": 0.15, "traced": 0.35}
_GIVE_BOTH = "fitroom.estimate(model, batch_size, x=some_samples, y=their_targets)"
_MOST = 1 << 20  # the largest batch that is looked for


class Estimate(Footprint):
    """A Footprint that knows every batch size. As JSON it is a plain Footprint.

    Example:
        >>> found = fitroom.estimate(model, batch_size=64)
        >>> found.peak, found.at(128).peak, found.max_batch("8GiB")
    """

    _source: Footprints

    @classmethod
    def of(cls, source: Footprints, kind: Kind, batch: int) -> Estimate:
        """The estimate at one size."""
        plain = source.at(kind, batch)
        found = cls(**{field.name: getattr(plain, field.name) for field in dataclasses.fields(plain)})
        object.__setattr__(found, "_source", source)
        return found

    def at(self, batch: int) -> Estimate:
        """The same at another batch size; nothing runs for it."""
        return Estimate.of(self._source, self.kind, _size(batch))

    def max_batch(self, budget: int | str | Budget) -> int:
        """The largest batch that fits the budget; 0 where none does, a million where it does not end."""
        return self._source.largest(self.kind, _bytes(budget), _MOST)

    def fits(self, budget: int | str | Budget) -> bool:
        """Whether the worst case is within the budget, and the allocator finds a place there for every request.

        It can run out with memory to spare: what is free need not be in one piece.
        """
        return self._source.fits(self.kind, self.batch_size, _bytes(budget))

    def sliced(self, slices: int) -> Footprint:
        """The same batch in so many slices, by arithmetic; exactly measured it is with `plan`."""
        return self._source.sliced(self.batch_size, slices)

    def fitting_slice(self, budget: int | str | Budget) -> int:
        """The largest slice of the batch whose worst case is within the budget; 0 where not even one sample is."""
        return self._source.fitting_slice(self.batch_size, _bytes(budget))

    def seconds(self, batch: int) -> float | None:
        """How long a step takes where it was measured; None where it was only traced."""
        return self._source.time(batch)

    @property
    def on_gpu(self) -> Estimate:
        """The same on a GPU, without what a CPU's kernels take for themselves; its band is wider."""
        return Estimate.of(self._source.on_gpu(), self.kind, self.batch_size)

    @property
    def evaluation(self) -> Estimate:
        """What `evaluate` needs at this batch size; measured in a process of its own when it is first asked for."""
        return self._of_kind("evaluation")

    @property
    def prediction(self) -> Estimate:
        """What `predict` needs at this batch size; measured together with that."""
        return self._of_kind("prediction")

    @property
    def is_compiled(self) -> bool:
        """Whether XLA compiles the steps."""
        return self._source.is_compiled

    def with_note(self, note: str) -> Estimate:
        """The same, with something more to be said of it."""
        source = dataclasses.replace(self._source, notes=(*self._source.notes, note), _found={})
        return Estimate.of(source, self.kind, self.batch_size)

    def _of_kind(self, kind: Kind) -> Estimate:
        source = self._source.with_others() if kind in self._source.missing else self._source
        if kind in source.missing:
            raise UsageError(f"There is no {kind} of this model", received=source.missing[kind][:300])
        return Estimate.of(source, kind, self.batch_size)

    @classmethod
    def from_json(cls, text: str) -> Footprint:  # type: ignore[override]  # the other sizes are not in it
        """The Footprint that `text` holds."""
        return Footprint.from_json(text)

    def to_json(self) -> str:
        """One line of JSON: a Footprint at this size, which knows no other."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(Footprint)}
        return Footprint(**values).to_json()


def estimate(
    model: Any, batch_size: int = 32, x: Any = None, y: Any = None, *, plan: Plan | str | None = None
) -> Estimate:
    """The memory of a training step at a batch size, before one runs: by part, by layer, and for any other size.

    A process of its own builds the model again on the pocket device and records a few small steps; this process, the
    model and its data are left alone.

    Args:
        model: a compiled Keras model.
        batch_size: how many samples a step has.
        x, y: a few samples with their targets, where the model does not tell what it takes; the first one is looked at,
            of a `tf.RaggedTensor` the longest. A `tf.data.Dataset` or `PyDataset` of both will do as `x`.
        plan: with these remedies, such as ``"micro_batch=4, recompute"``.

    Raises:
        UsageError: if the model is not compiled, its inputs are not known, or the batch size makes no sense.

    Example:
        >>> fitroom.estimate(model, batch_size=64).max_batch("8GiB")
        212
    """
    return _estimated(model, batch_size, x, y, read_plan(plan), _traced)


def estimate_here(model: Any, batch_size: int, x: Any, y: Any, plan: Plan) -> Estimate:
    """The same in a process that is not needed any more: a model that cannot be built again is measured in this one.

    Raises:
        UsageError: as for `estimate`.
    """
    return _estimated(model, batch_size, x, y, plan, _here)


def estimate_step(measurement: Measurement, batch_size: int, plan: Plan) -> Estimate:
    """The memory of a step that is written by hand, in a process that is not needed any more."""
    answer = _run_here(measurement, plan)
    return Estimate.of(_footprints(answer, plan, "measured", []), "training", _size(batch_size))


_Otherwise = Callable[[Any, Any, Any, int, Plan, FitroomError], tuple[dict[str, Any], Literal["traced", "measured"]]]


def _estimated(model: Any, batch_size: int, x: Any, y: Any, plan: Plan, otherwise: _Otherwise) -> Estimate:
    size = _size(batch_size)
    _check(model, x)
    inputs = getattr(model, "inputs", None) or []
    sample, target, notes = given.sample_of(x, y, len(inputs[0].shape) if inputs else None)
    if sample is not None and any(None in tuple(one.shape)[1:] for one in inputs) and not notes:
        shapes = ", ".join(str(leaf.shape[1:]) for leaf in keras.tree.flatten(sample))
        notes = [f"For samples of {shapes}, as given; longer ones need more."]
    if plan.setting(recompute.NAME) is not None:
        notes.append(f"What is computed again was chosen for batches of {size}.")
    if model.run_eagerly:
        notes.append("The step runs eagerly, and does not tell gradients from activations.")
    how: Literal["traced", "measured"] = "measured"
    others: Callable[[], dict[str, Any]] | None = None
    try:
        packed = pack(model)
        answer = measure(packed, sample, target, size, plan)
        kinds = ("evaluation", "prediction")
        others = functools.partial(measure, packed, sample, target, size, plan, kinds, answer["sizes"])
    except (CannotBeRebuilt, CannotBeMeasured) as error:
        answer, how = otherwise(model, sample, target, size, plan, error)
        notes += [f"Traced, not measured. {error}"] if how == "traced" else []
    found = _footprints(answer, plan, how, [*notes, *answer.get("notes", ())])
    if others is not None:
        found.others = functools.partial(_others, others, plan)
    return Estimate.of(found, "training", size)


def _others(measured: Callable[[], dict[str, Any]], plan: Plan) -> Footprints:
    """Evaluation and prediction, measured when somebody asks for them."""
    try:
        return _footprints(measured(), plan, "measured", [])
    except (CannotBeRebuilt, CannotBeMeasured) as error:
        raise UsageError("Evaluation and prediction cannot be measured", received=str(error)) from error


def _here(
    model: Any, x: Any, y: Any, size: int, plan: Plan, reason: FitroomError
) -> tuple[dict[str, Any], Literal["traced", "measured"]]:
    """The model's own steps, in this process.

    Raises:
        UsageError: if they do not run on the data.
    """
    sample = x if x is not None else samples.of_inputs(model)
    turn(model, **turns(plan))
    try:
        if not model.built:
            with contextlib.suppress(NotImplementedError):  # a GAN need not have a call of its own
                model(samples.batch(sample, 1))
        target = y
        if y is None and x is None and model.loss is not None:
            target = samples.of_targets(model, model(samples.batch(sample, 1)))
        return _run_here(Measurement(model, sample, target, size), plan), "measured"
    except Exception as error:  # whatever the model raises on the data
        said = (str(error).splitlines() or [""])[0][:300]
        raise UsageError(
            "A step of the model does not run on small batches",
            received=f"{type(error).__name__}: {said}",
            hint="a step that works for batches of any size; the same script under python tells more",
        ) from error


def _run_here(measurement: Measurement, plan: Plan) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras' on our data: the script's own are said when it trains
        answer = measurement.run(plan, ("training", "evaluation", "prediction"))
    known = sum(size for _, size in (*answer["weights"], *answer["slots"])) + answer["accumulators"]
    kinds = [answer[kind] for kind in ("training", "evaluation", "prediction") if isinstance(answer[kind], list)]
    for tape in (tape for kind in kinds for recorded in kind for tape in recorded.tapes):
        tape.base = known  # whatever else is in this process is not the step's: data, other models
    return {"prelude": resident([*answer["weights"], *answer["slots"]]), **answer}


def _traced(
    model: Any, x: Any, y: Any, size: int, plan: Plan, reason: FitroomError
) -> tuple[dict[str, Any], Literal["traced", "measured"]]:
    """The step's graph instead of its run.

    Raises:
        UsageError: with the reason why it was not measured, if it cannot be traced either.
    """
    if plan.remedies:
        raise UsageError(
            "A plan's effect is measured, and this model cannot be measured",
            received=str(reason),
            expected="a model that can be built again from its configuration",
            hint="give the model a get_config(), or estimate it without a plan",
        ) from reason
    if not model.variables and isinstance(reason, CannotBeRebuilt):
        raise UsageError(
            "The model is not built, and to trace it would build it",
            received=str(reason),
            hint="call it once on a sample, model(x[:1]), then fitroom.estimate(model, batch_size, x=x)",
        ) from reason
    try:
        return trace(model, x, y), "traced"
    except Exception as error:  # whatever the model raises on the data
        raise UsageError(str(reason).rstrip("."), hint=_GIVE_BOTH) from error


def _footprints(answer: dict[str, Any], plan: Plan, how: Literal["traced", "measured"], notes: list[str]) -> Footprints:
    resident = Resident(tuple(answer["weights"]), tuple(answer["slots"]), answer["accumulators"], answer["trained"])
    kinds: tuple[Kind, ...] = ("training", "evaluation", "prediction")
    missing = {kind: answer[kind] for kind in kinds if isinstance(answer[kind], str)}
    return Footprints(
        replays={kind: Replay(answer["prelude"], answer[kind]) for kind in kinds if kind not in missing},
        missing=missing,
        resident=resident,
        names=Names(answer["layers"], answer["optimizers"], answer["data"]),
        how=how,
        band=_BANDS["compiled" if how == "measured" and answer["compiled"] else how],
        plan=str(plan),
        notes=tuple(notes),
        seconds=tuple(answer["seconds"]),
        is_compiled=bool(answer["compiled"]),
    )


def _size(batch: Any) -> int:
    try:
        size = 0 if isinstance(batch, bool) else operator.index(batch)
    except TypeError:
        size = 0
    if size < 1:
        raise UsageError("A batch has at least one sample", received=repr(batch), expected="a whole number from 1 up")
    return size


def _bytes(budget: int | str | Budget) -> int:
    if isinstance(budget, Budget):
        return budget.bytes
    return parse_bytes(budget if isinstance(budget, str) else operator.index(budget))


def _check(model: Any, x: Any) -> None:
    if not isinstance(model, keras.Model):
        raise UsageError("fitroom.estimate takes a Keras model", received=f"{type(model).__name__}")
    if not model.compiled:
        raise UsageError(
            "The model is not compiled, so that its optimizer and loss are not known",
            expected="a compiled model",
            hint='model.compile("adam", loss), then fitroom.estimate(model)',
        )
    fixed = {one.shape[0] for one in getattr(model, "inputs", None) or ()} - {None}
    if fixed:
        raise UsageError(
            "The model takes batches of one size only, and smaller ones are what is measured",
            received=f"an input for batches of {min(fixed)}",
            hint="keras.Input(shape=…) instead of batch_shape=…, for the estimate",
        )
    if x is None:
        samples.of_inputs(model)  # says what to do where the model does not tell
