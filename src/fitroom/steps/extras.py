"""The model's `add_loss` terms: does each sum over the samples, or average?

Nothing in the code of a layer tells. A look at a few samples does: the term of the whole against those of its halves.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from fitroom.errors import UsageError
from fitroom.steps import keras_seams, slicing
from fitroom.steps.losses import ExtraKind
from fitroom.steps.state import State, native


def kinds(model: Any, data: Any, *, training: bool) -> list[ExtraKind]:
    """The kind of each `add_loss` term, in order; none for a model without such terms.

    Raises:
        UsageError: if a term is neither a sum nor a mean over the samples, so that slices cannot give it.
    """
    count = len(model.losses) - keras_seams.count_regularisers(model)
    if count <= 0:
        return []
    x, _, _ = keras.utils.unpack_x_y_sample_weight(data)
    samples = slicing.batch_size(x)
    left, right = (min(2, samples // 2), min(2, samples - samples // 2))
    state = State(native(model.non_trainable_variables))
    before = state.read()
    try:
        with keras_seams.fixed_randomness():
            whole, one, other = (
                _terms(model, slicing.cut(x, start, stop), count, training)
                for start, stop in ((0, left + right), (0, left), (left, left + right))
            )
    finally:
        state.write(before)
    share = left / (left + right)
    return [_kind(w, a, b, share) for w, a, b in zip(whole, one, other, strict=True)]


def _terms(model: Any, x: Any, count: int, training: bool) -> list[float]:
    model(x, training=training)
    return [float(loss) for loss in model.losses[:count]]


def _kind(whole: float, one: float, other: float, share: float) -> ExtraKind:
    if np.isclose(whole, share * one + (1 - share) * other, rtol=1e-3, atol=1e-12):
        return "mean"
    if np.isclose(whole, one + other, rtol=1e-3, atol=1e-12):
        return "sum"
    raise UsageError(
        "A loss that the model adds is neither a sum nor a mean over the samples: slices cannot give it",
        received=f"{whole:g} for the whole, {one:g} and {other:g} for its halves",
    )
