"""Small calls of a training step that is written by hand, recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fitroom.core import Plan
from fitroom.estimator import keras_seams, samples
from fitroom.estimator.measurement import Measurement, Runs, accumulators, owner

_NO_OTHER = "it is a step written by hand"


class Trained(NamedTuple):
    """What a step trains with: optimizers, the variables that they update, and others that it writes."""

    optimizers: list[Any]
    variables: Sequence[Any]
    others: Sequence[Any] = ()


class StepMeasurement(Measurement):
    """The recordings of one step.

    Args:
        step: a function of arrays with the batch's axis and of others, which go along whole.
        trained: tells what it trains, once it has run.
        arrays: a batch.
        others: what goes along.
        batch: the size that is asked for, by which recomputation is chosen.
        compiled: whether XLA compiles it.
    """

    def __init__(
        self,
        step: Runs,
        trained: Callable[[], Trained],
        arrays: Sequence[Any],
        others: Sequence[Any],
        batch: int,
        *,
        compiled: bool = False,
    ) -> None:
        super().__init__(None, [np.asarray(one[:1]) for one in arrays], None, batch)
        self._own = step
        self._compiled = compiled
        self._trained = trained
        self._others = list(others)

    def run(self, plan: Plan, kinds: tuple[str, ...]) -> dict[str, Any]:
        """What was recorded, and what the step trains."""
        training = self._planned(plan)
        found = self._trained()
        weights = [(_path(one), keras_seams.bytes_of(one)) for one in found.variables]
        trained = sum(size for _, size in weights)
        weights += [(_path(one), keras_seams.bytes_of(one)) for one in found.others]
        paths = [path for path, _ in weights]
        slots = [(owner(one.path, paths), keras_seams.bytes_of(one)) for one in keras_seams.slots(found.optimizers)]
        known = sum(size for _, size in (*weights, *slots))
        return {
            "training": training,
            "evaluation": _NO_OTHER,
            "prediction": _NO_OTHER,
            "sizes": (),
            "layers": [path.split("/")[-2] for path in paths if "/" in path],
            "optimizers": [one.name for one in found.optimizers],
            "data": samples.SCOPE,
            "compiled": self.is_compiled,
            "seconds": self.seconds,
            "trained": trained,
            "accumulators": accumulators(plan, training, known, trained),
            "weights": weights,
            "slots": slots,
        }

    @property
    def is_compiled(self) -> bool:
        """Whether XLA compiles the step."""
        return self._compiled

    def _step(self) -> Runs:
        return self._own

    def _like(self) -> Any:
        return samples.any_size(self.sample), self._others

    def _data(self, size: int) -> Any:
        (arrays,) = samples.dataset(tuple(self.sample), lambda: iter([size]))
        return list(arrays), self._others


def _path(variable: Any) -> str:
    return getattr(variable, "path", None) or str(variable.name)
