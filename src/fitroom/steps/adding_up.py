"""Do the numbers of two parts of a batch add up to those of the whole?"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from fitroom.steps.held import Kind


def as_arrays(gradients: list[Any]) -> list[Any]:
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


def kinds_of_gradients(whole: Any, one: Any, other: Any, share: float, tolerance: float) -> set[str]:
    """How two parts' gradients add up to the whole's; none where they do not, both where these samples do not tell."""
    three = [_aligned(*gradients) for gradients in zip(whole, one, other, strict=True)]
    batch = [w for w, _, _ in three]
    found = set()
    if agree(batch, [share * a + (1 - share) * b for _, a, b in three], tolerance):
        found.add("mean")
    if agree(batch, [a + b for _, a, b in three], tolerance):
        found.add("sum")
    return found


def kinds_of_scalars(whole: Any, one: Any, other: Any, share: float, tolerance: float) -> list[Kind]:
    """How each scalar of two parts adds up to the whole's."""
    found: list[Kind] = []
    for w, a, b in zip(whole, one, other, strict=True):
        if np.ndim(w):
            continue
        if np.isclose(w, share * a + (1 - share) * b, rtol=tolerance, atol=1e-9):
            found.append("mean")
        else:
            found.append("sum" if np.isclose(w, a + b, rtol=tolerance, atol=1e-9) else "other")
    return found


def agree(batch: list[Any], parts: list[Any], tolerance: float) -> bool:
    """Whether two lists of arrays are the same, each within a share of its own size, or of a little of all of them."""
    pairs = [_aligned(one, other) for one, other in zip(batch, parts, strict=True)]
    size = float(np.sqrt(sum(np.sum(one**2) for one, _ in pairs)))
    for one, other in pairs:
        distance, own = float(np.linalg.norm(one - other)), float(np.linalg.norm(one))
        if not distance <= tolerance * max(own, 1e-2 * size) + 1e-9:  # not: also where something is not a number
            return False
    return True
