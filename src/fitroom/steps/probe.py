"""Does slicing keep the math? Where structure does not tell, a few samples do: together, and in two parts.

Random numbers are taken out for the probe (every sample draws the same ones), so that only the mixing of samples can
make a difference. Everything that the probe writes is put back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from fitroom import oom
from fitroom.errors import UsageError
from fitroom.steps import extras, keras_seams, slicing
from fitroom.steps.compiled import Compiled
from fitroom.steps.held import Held, Kind, per_sample
from fitroom.steps.keras_pass import KerasPass
from fitroom.steps.mixing import Obstacle
from fitroom.steps.sites import Capture

if TYPE_CHECKING:
    from fitroom.steps.own_step import OwnStep

FEW = 5  # samples: three and two
EXACT, HALF = 1e-3, 5e-2  # how far the parts may be from the whole, in float32 and in 16 bits


@dataclass(frozen=True)
class Verdict:
    """What the probe found.

    Attributes:
        sites: how the gradients of each site add up.
        results, held: how the scalars add up that the step returns, and feeds to metrics.
    """

    obstacles: list[Obstacle]
    sites: list[Kind] = field(default_factory=list)
    results: list[Kind] = field(default_factory=list)
    held: list[Kind] = field(default_factory=list)


def own_step(step: OwnStep, data: Any) -> Verdict:
    """What slicing does to a step that Keras did not write."""
    few = min(FEW, step.samples(data))
    if few < 2:
        return Verdict([Obstacle(step.name, "has no batch axis to cut along", can_be_allowed=False)])
    first = -(-few // 2)
    run = Compiled(lambda part: _own(step, part))
    state = step.small
    before = state.read()
    taken = []
    try:
        for start, stop in ((0, few), (0, first), (first, few)):
            with keras_seams.fixed_randomness():
                gradients, results, held = run(step.cut(data, start, stop))
            values = [_dense(site) for site in gradients]
            taken.append((values, [r.numpy() for r in results], [h.numpy() for h in held]))
            if not per_sample(results, stop - start):
                reason = "returns a tensor that is neither a scalar nor has an entry per sample"
                return Verdict([Obstacle(step.name, reason, can_be_allowed=False)])
            state.write(before)
    except tf.errors.OpError as error:
        state.write(before)
        found = oom.from_exception(error)
        if found is None or not found.is_memory:
            raise
        return Verdict([Obstacle(step.name, f"could not be tried on {few} samples: memory ran out", False)])
    share = first / few
    (whole, results, held), (one, results1, held1), (other, results2, held2) = taken
    tolerance = _tolerance(step.sites)
    sites = [_kind_of_gradients(*three, share, tolerance) for three in zip(whole, one, other, strict=True)]
    reason = "mixes samples: the gradients of slices do not add up to the batch's"
    return Verdict(
        obstacles=[Obstacle(step.name, reason)] if "other" in sites else [],
        sites=["mean" if kind == "other" else kind for kind in sites],
        results=_kinds(results, results1, results2, share, tolerance),
        held=["mean" if kind == "other" else kind for kind in _kinds(held, held1, held2, share, tolerance)],
    )


def _own(step: OwnStep, part: Any) -> tuple[list[list[Any]], list[Any], list[Any]]:
    held = Held()
    with Capture().active() as capture, held.active():
        result = step.function(part)
    leaves = [tf.convert_to_tensor(leaf) for leaf in tf.nest.flatten(result) if tf.is_tensor(leaf)]
    return capture.gradients, leaves, held.values


def keras_step(model: Any, data: Any, *, trains: bool) -> list[Obstacle]:
    """What slicing does to Keras' own step, with layers or losses that Keras did not write."""
    few = min(FEW, slicing.batch_size(data))
    if few < 2:
        return []
    first = -(-few // 2)
    data = slicing.cut(data, 0, few)
    passes = KerasPass(model, trains=trains)
    with keras_seams.fixed_randomness():
        try:
            passes.extras = extras.kinds(model, data)
        except UsageError as error:
            return [Obstacle("add_loss", str(error))]
        passes.begin(data)
        passes.trace_slice(slicing.cut(data, 0, 1), few)
        state = passes.state()
        before = state.read()
        totals = passes.totals(data)
        taken = []
        for cuts in (((0, few),), ((0, first), (first, few))):
            passes.begin(data)
            tracked: Any = 0.0
            sparse = []
            for start, stop in cuts:
                fed, rows = passes.slice(slicing.cut(data, start, stop), few, totals)
                tracked = tracked + np.array([value.numpy() for value in fed])
                sparse.append(rows)
            state.write(before)
            gradients = _dense(passes.gradients(sparse)) if trains else []
            taken.append([*gradients, tracked])
    whole, parts = taken
    if _agree(whole, parts, HALF if _is_half(model) else EXACT):
        return []
    what = "the model's own layers or loss"
    return [Obstacle(what, "mix samples: the gradients of slices do not add up to the batch's")]


def _dense(gradients: list[Any]) -> list[Any]:
    """Gradients as arrays; of sparse ones, the rows in their order, which is that of the samples."""
    found: list[Any] = []
    for gradient in gradients:
        if isinstance(gradient, tf.IndexedSlices):
            found.append(_Rows(gradient.indices.numpy(), gradient.values.numpy()))
        elif gradient is not None:
            found.append(gradient.numpy())
    return found


class _Rows:
    """A sparse gradient: rows that add up where their indices are the same."""

    def __init__(self, indices: np.ndarray, values: np.ndarray) -> None:
        self.places, inverse = np.unique(indices, return_inverse=True)
        self.values = np.zeros((len(self.places), *values.shape[1:]), np.float64)
        np.add.at(self.values, inverse.ravel(), values)

    def at(self, places: np.ndarray) -> np.ndarray:
        found = np.zeros((len(places), *self.values.shape[1:]))
        found[np.searchsorted(places, self.places)] = self.values
        return found


def _aligned(*gradients: Any) -> list[np.ndarray]:
    if not isinstance(gradients[0], _Rows):
        return [np.asarray(gradient, np.float64) for gradient in gradients]
    places = np.unique(np.concatenate([gradient.places for gradient in gradients]))
    return [gradient.at(places) for gradient in gradients]


def _kind_of_gradients(whole: Any, one: Any, other: Any, share: float, tolerance: float) -> Kind:
    three = [_aligned(*gradients) for gradients in zip(whole, one, other, strict=True)]
    batch = [w for w, _, _ in three]
    if _agree(batch, [share * a + (1 - share) * b for _, a, b in three], tolerance):
        return "mean"
    return "sum" if _agree(batch, [a + b for _, a, b in three], tolerance) else "other"


def _kinds(whole: Any, one: Any, other: Any, share: float, tolerance: float) -> list[Kind]:
    found: list[Kind] = []
    for w, a, b in zip(whole, one, other, strict=True):
        if np.ndim(w):
            continue
        if np.isclose(w, share * a + (1 - share) * b, rtol=tolerance, atol=1e-9):
            found.append("mean")
        else:
            found.append("sum" if np.isclose(w, a + b, rtol=tolerance, atol=1e-9) else "other")
    return found


def _agree(batch: list[Any], parts: list[Any], tolerance: float) -> bool:
    """Whether two lists of arrays are the same, each within a share of its own size, or of a little of all of them."""
    pairs = [_aligned(one, other) for one, other in zip(batch, parts, strict=True)]
    size = float(np.sqrt(sum(np.sum(one**2) for one, _ in pairs)))
    for one, other in pairs:
        distance, own = float(np.linalg.norm(one - other)), float(np.linalg.norm(one))
        if not distance <= tolerance * max(own, 1e-2 * size) + 1e-9:  # not: also where something is not a number
            return False
    return True


def _tolerance(sites: list[Any]) -> float:
    kinds = {str(variable.dtype) for site in sites for variable in site.variables}
    return HALF if any("16" in kind for kind in kinds) or _is_half(None) else EXACT


def _is_half(model: Any) -> bool:
    import keras

    policy = keras.config.dtype_policy() if model is None else model.dtype_policy
    return "16" in str(getattr(policy, "compute_dtype", ""))
