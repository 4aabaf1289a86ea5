"""`fitroom.estimate`: the memory of a training, before it runs."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable
from typing import Any, Literal

import keras

from fitroom.core import Plan
from fitroom.errors import FitroomError, UsageError
from fitroom.estimator import given, keras_seams, samples
from fitroom.estimator.estimates import Estimate, size_of
from fitroom.estimator.footprints import Footprints, Kind, Names, Resident
from fitroom.estimator.measurement import Measurement
from fitroom.estimator.measuring import CannotBeMeasured, measure
from fitroom.estimator.replay import Replay
from fitroom.estimator.shipping import CannotBeRebuilt, pack
from fitroom.estimator.tape import resident
from fitroom.estimator.tracing import trace
from fitroom.remedies import read_plan, recompute, turns
from fitroom.steps.turning import turn

_BANDS = {"measured": 0.06, "compiled": 0.12, "traced": 0.35}
_GIVE_BOTH = "fitroom.estimate(model, batch_size, x=some_samples, y=their_targets)"


def estimate(
    model: Any, batch_size: int = 32, x: Any = None, y: Any = None, *, plan: Plan | str | None = None
) -> Estimate:
    """The memory of a training step at a batch size, before one runs: by part, by layer, and for any other size.

    A process of its own builds the model again on the pocket device and records a few small steps; this process, the
    model and its data are left alone.

    Args:
        model: a compiled Keras model.
        batch_size: how many samples a step has, on all replicas together.
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
    return Estimate.of(_footprints(answer, plan, "measured", []), "training", size_of(batch_size))


_Otherwise = Callable[[Any, Any, Any, int, Plan, FitroomError], tuple[dict[str, Any], Literal["traced", "measured"]]]


def _estimated(model: Any, batch_size: int, x: Any, y: Any, plan: Plan, otherwise: _Otherwise) -> Estimate:
    size = size_of(batch_size)
    _check(model, x)
    inputs = getattr(model, "inputs", None) or []
    sample, target, notes = given.sample_of(x, y, len(inputs[0].shape) if inputs else None)
    if sample is not None and any(None in tuple(one.shape)[1:] for one in inputs) and not notes:
        shapes = ", ".join(str(leaf.shape[1:]) for leaf in keras.tree.flatten(sample))
        notes = [f"For samples of {shapes}, as given; longer ones need more."]
    replicas = keras_seams.replicas(model)
    share = -(-size // max(len(replicas), 1))
    if plan.setting(recompute.NAME) is not None:
        notes.append(f"What is computed again was chosen for batches of {share}.")
    if model.run_eagerly:
        notes.append("The step runs eagerly, and does not tell gradients from activations.")
    how: Literal["traced", "measured"] = "measured"
    others: Callable[[], dict[str, Any]] | None = None
    try:
        packed = pack(model)
        answer = measure(packed, sample, target, share, plan)
        kinds = ("evaluation", "prediction")
        others = functools.partial(measure, packed, sample, target, share, plan, kinds, answer["sizes"])
    except (CannotBeRebuilt, CannotBeMeasured) as error:
        answer, how = otherwise(model, sample, target, share, plan, error)
        notes += [f"Traced, not measured. {error}"] if how == "traced" else []
    found = _footprints(answer, plan, how, [*notes, *answer.get("notes", ())])
    found.replicas = replicas
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
