"""The model's `add_loss` terms: does each sum over the samples, or average?

Nothing in the code of a layer tells. A look at a few samples does: the term of the whole against those of its halves.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from fitroom.errors import UsageError
from fitroom.steps import keras_seams, random_seams, replicas, slicing
from fitroom.steps.losses import ExtraKind
from fitroom.steps.state import State, native


def kinds(model: Any, data: Any, *, training: bool) -> list[ExtraKind]:
    """The kind of each `add_loss` term, in order; none for a model without such terms. Asked after a trace.

    Raises:
        UsageError: if a term is neither a sum nor a mean over the samples, so that slices cannot give it.
    """
    if len(model.losses) <= keras_seams.count_regularisers(model):
        return []
    x, _, _ = keras.utils.unpack_x_y_sample_weight(replicas.parts(data)[0])
    state = State(native(model.non_trainable_variables))
    before = state.read()
    try:
        with random_seams.fixed_randomness():
            whole, one, other = (
                _terms(model, slicing.cut(x, start, stop), training) for start, stop in ((0, 2), (0, 1), (1, 2))
            )
    finally:
        state.write(before)
    return [_kind(w, a, b) for w, a, b in zip(whole, one, other, strict=True)]


def _terms(model: Any, x: Any, training: bool) -> list[float]:
    keras_seams.call(model, x, training)
    count = len(model.losses) - keras_seams.count_regularisers(model)
    return [float(loss) for loss in model.losses[:count]]


def _kind(whole: float, one: float, other: float) -> ExtraKind:
    if np.isclose(whole, (one + other) / 2, rtol=1e-3, atol=1e-12):
        return "mean"
    if np.isclose(whole, one + other, rtol=1e-3, atol=1e-12):
        return "sum"
    raise UsageError(
        "A loss that the model adds is neither a sum nor a mean over the samples: slices cannot give it",
        received=f"{whole:g} for the whole, {one:g} and {other:g} for its halves",
    )
