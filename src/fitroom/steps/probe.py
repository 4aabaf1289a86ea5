"""Does slicing keep the math? Where structure does not tell, a few samples do: together, and in two parts.

Random numbers are taken out for the probe (every sample draws the same ones), so that only the mixing of samples can
make a difference. Everything that the probe writes is put back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import tensorflow as tf

from fitroom import oom
from fitroom.errors import UsageError
from fitroom.steps import extras, graph_seams, random_seams, replicas, slicing
from fitroom.steps.adding_up import agree, as_arrays, kinds_of_gradients, kinds_of_scalars
from fitroom.steps.compiled import Compiled
from fitroom.steps.held import Held, Kind, as_tensor, is_tensor, per_sample
from fitroom.steps.keras_pass import KerasPass
from fitroom.steps.mixing import Obstacle
from fitroom.steps.sites import Capture
from fitroom.steps.state import State, native

if TYPE_CHECKING:
    from fitroom.steps.own_step import OwnStep

T = TypeVar("T")

# How many samples are tried, and from where on; the last resort are two, where memory is very short.
TRIES = ((5, 0), (5, 1), (2, 0))
EXACT, HALF = 1e-3, 5e-2  # how far the parts may be from the whole, in float32 and in 16 bits
MIXES = "mixes samples: the gradients of slices do not add up to the batch's"


@dataclass(frozen=True)
class Verdict:
    """What the probe found.

    Attributes:
        sites: how the gradients of each site add up.
        results, held: how the scalars add up that the step returns, and feeds to metrics.
        once: what the step sets regardless of the samples: a counter, an average of weights.
        is_ambiguous: whether the samples that were tried do not tell a mean from a sum.
    """

    obstacles: list[Obstacle]
    sites: list[Kind] = field(default_factory=list)
    results: list[Kind] = field(default_factory=list)
    held: list[Kind] = field(default_factory=list)
    once: State = field(default_factory=lambda: State([]))
    is_ambiguous: bool = False


def own_step(step: OwnStep, data: Any) -> Verdict:
    """What slicing does to a step that Keras did not write."""
    samples = step.samples(data)
    if samples < 2:
        return Verdict([Obstacle(step.name, "has no batch axis to cut along", can_be_allowed=False)])
    verdict: Verdict | None = None
    for count, shift in TRIES:
        few = min(count, samples)
        tried = _tried(functools.partial(_own_verdict, step, step.spread(data, few, shift), few))
        verdict = tried or verdict
        if tried is not None and not tried.is_ambiguous:
            break
    return verdict or Verdict([Obstacle(step.name, "could not be tried on two samples: memory ran out", False)])


def keras_step(model: Any, data: Any, *, trains: bool) -> list[Obstacle]:
    """What slicing does to Keras' own step, with layers or losses that Keras did not write."""
    samples = slicing.batch_size(data)
    if samples < 2:
        return []
    for count, shift in TRIES:
        few = min(count, samples)
        found = _tried(functools.partial(_keras_obstacles, model, slicing.spread(data, few, shift), few, trains))
        if found is not None:
            return found
    return [Obstacle("the model", "could not be tried on two samples: memory ran out", can_be_allowed=False)]


def _tried(trial: Callable[[], T]) -> T | None:
    """A trial's outcome; None where memory ran out in it."""
    try:
        with random_seams.fixed_randomness():
            return trial()
    except Exception as error:
        found = oom.from_exception(error)
        if found is None or not found.is_memory:
            raise
        return None


def _own_verdict(step: OwnStep, data: Any, few: int) -> Verdict:
    first = -(-few // 2)
    run, function = _compiled(step, data)
    state = step.written.small
    written_from_data = graph_seams.written_from_data(function) if function is not None else set()
    once = [] if function is None else [
        one for one in state.variables if id(one) not in written_from_data and not random_seams.is_seed(one)
    ]  # fmt: skip
    before = state.read()
    at_first = State(once)
    first_values = at_first.read()
    taken = []
    try:
        for start, stop in ((0, few), (0, first), (first, few)):
            gradients, results, held = run(step.cut(data, start, stop))
            if not per_sample(results, stop - start):
                reason = "returns a tensor that is neither a scalar nor has an entry per sample"
                return Verdict([Obstacle(step.name, reason, can_be_allowed=False)])
            numbers = _numbers(results), _numbers(held)
            arrays = [[array for own in replicas.parts(site) for array in as_arrays(own)] for site in gradients]
            taken.append((arrays, *numbers, [one.numpy() for one in state.read()]))
            if start == 0 and stop == few:
                state.write(before)
            else:
                at_first.write(first_values)
    finally:
        state.write(before)
    share = first / few
    (whole, results, held, after), (one, results1, held1, _), (other, results2, held2, after_parts) = taken
    tolerance = _tolerance(step.sites)
    sites = [kinds_of_gradients(*three, share, tolerance) for three in zip(whole, one, other, strict=True)]
    kinds = kinds_of_scalars(results, results1, results2, share, tolerance)
    fed = kinds_of_scalars(held, held1, held2, share, tolerance)
    obstacles = [Obstacle(step.name, MIXES)] if any(not kind for kind in sites) else []
    obstacles += _changed_otherwise(step.name, state.variables, after, after_parts, tolerance)
    if not step.trains and ("other" in fed or ("other" in kinds and not step.results.are_metrics(state))):
        obstacles.append(Obstacle(step.name, "mixes samples: the results of slices do not add up to the batch's"))
    return Verdict(
        obstacles=obstacles,
        sites=["sum" if kind == {"sum"} else "mean" for kind in sites],
        results=kinds,
        held=["mean" if kind == "other" else kind for kind in fed],
        once=State(once),
        is_ambiguous=any(len(kind) > 1 for kind in sites),
    )


def _compiled(step: OwnStep, data: Any) -> tuple[Compiled, Any]:
    """The step for any number of samples, to be tried; with its function, where one will do for all."""
    run = Compiled(lambda part: _own(step, part))
    relaxed = step.relaxed(step.cut(data, 0, 1))
    before = tf.config.functions_run_eagerly()
    for is_inlined in (True, False):
        # Functions inside the step are traced in place: what they kept from here would come back in the training.
        tf.config.run_functions_eagerly(is_inlined)
        try:
            function = run.concrete((data,), like=(relaxed,))
            for start, stop in _halves(step.samples(data)):
                run.concrete((step.cut(data, start, stop),), like=(relaxed,))
        except (ValueError, TypeError, tf.errors.OperatorNotAllowedInGraphError):
            continue
        else:
            return run, function
        finally:
            tf.config.run_functions_eagerly(before)
    return run, None


def _halves(few: int) -> tuple[tuple[int, int], tuple[int, int]]:
    first = -(-few // 2)
    return (0, first), (first, few)


def _own(step: OwnStep, part: Any) -> tuple[list[list[Any]], list[Any], list[Any]]:
    held = Held()
    with Capture().active() as capture, held.active():
        result = step.on_replicas(part)
    leaves = [as_tensor(leaf) for leaf in tf.nest.flatten(result) if is_tensor(leaf)]
    return capture.gradients, leaves, held.values


def _numbers(values: list[Any]) -> list[Any]:
    """Values as arrays: the first replica's, which tell for all of them."""
    return [one.numpy() for one in replicas.parts(values)[0]]


def _keras_obstacles(model: Any, data: Any, few: int, trains: bool) -> list[Obstacle]:
    passes = KerasPass(model, trains=trains)
    passes.trace(data)
    try:
        passes.extras = extras.kinds(model, data, training=trains)
    except UsageError as error:
        return [Obstacle("add_loss", str(error))]
    passes.begin(data)
    samples = slicing.sizes(data)
    passes.trace_slice(slicing.cut(data, 0, 1), samples)
    state = passes.state()
    before = state.read()
    totals = passes.totals(data)
    taken = []
    try:
        for cuts in (((0, few),), _halves(few)):
            passes.begin(data)
            tracked: Any = 0.0
            sparse = []
            for start, stop in cuts:
                fed, rows = passes.slice(slicing.cut(data, start, stop), samples, totals)
                tracked = tracked + np.array([value.numpy() for own in replicas.parts(fed) for value in own])
                sparse.append(rows)
            after = [value.numpy() for value in state.read()]
            state.write(before)
            each = replicas.parts(passes.gradients(sparse)) if trains else []
            gradients = [array for own in each for array in as_arrays(own)]
            taken.append(([*gradients, tracked], after))
    finally:
        state.write(before)
    (whole, after), (parts, after_parts) = taken
    tolerance = HALF if _is_half(model) else EXACT
    what = "the model's own layers or loss"
    if not agree(whole, parts, tolerance):
        return [Obstacle(what, MIXES.replace("mixes", "mix"))]
    # In training a metric that does not add up is a number in the logs; in an evaluation it is the result.
    ignored = {id(one) for one in native(model.metrics_variables)} if trains else set()
    kept = [index for index, one in enumerate(state.variables) if id(one) not in ignored]
    rest = [[values[index] for index in kept] for values in (state.variables, after, after_parts)]
    return _changed_otherwise(what if trains else "a metric or layer", rest[0], rest[1], rest[2], tolerance)


def _changed_otherwise(
    what: str, variables: list[Any], whole: list[Any], parts: list[Any], tolerance: float
) -> list[Obstacle]:
    """What the step writes besides its update, and slices would write otherwise."""
    for variable, one, other in zip(variables, whole, parts, strict=True):
        if not random_seams.is_seed(variable) and not np.allclose(one, other, rtol=tolerance, atol=1e-6):
            return [Obstacle(what, f"sets {variable.name.split(':')[0]} to something else in slices than in one piece")]
    return []


def _tolerance(sites: list[Any]) -> float:
    kinds = {str(variable.dtype) for site in sites for variable in site.variables}
    return HALF if any("16" in kind for kind in kinds) or _is_half(None) else EXACT


def _is_half(model: Any) -> bool:
    import keras

    policy = keras.config.dtype_policy() if model is None else model.dtype_policy
    return "16" in str(getattr(policy, "compute_dtype", ""))
