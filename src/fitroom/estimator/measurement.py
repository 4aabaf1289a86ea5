"""Small steps of a model on the pocket device, recorded: of training, evaluation and prediction."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, Protocol

from fitroom.core import Plan
from fitroom.estimator import keras_seams, samples
from fitroom.estimator.climbing import COMPILED, climb, climb_compiled
from fitroom.estimator.profiler_seams import Event
from fitroom.estimator.recorder import Recorder, Taken, recorded, taken
from fitroom.estimator.tape import Recorded, scaled
from fitroom.remedies import micro_batch, recompute
from fitroom.steps import cutting, slicing
from fitroom.steps.model_step import model_step
from fitroom.steps.recomputation import Chooser, Saving

_FIRST = 2  # samples of the first step
NOT_ASKED = "it was not asked for"


class Runs(Protocol):
    """What can be recorded: a step, as steps/ has it."""

    def whole(self, data: Any, like: Any) -> Any:
        """Run a batch in one piece."""

    def sliced(self, data: Any, bounds: Iterable[tuple[int, int]]) -> Any:
        """Run it in slices."""

    def recompute(self, data: Any, like: Any, choose: Chooser, samples: int | None = None) -> Saving | None:
        """Compute activations again from now on."""


class Measurement:
    """The recordings of one model.

    Args:
        model: compiled and built.
        x, y: a few samples; `y` is None where the model trains without targets.
        batch: the size that is asked for, by which recomputation is chosen.
        sizes: to record evaluations and predictions at, where training is not recorded first.
    """

    def __init__(self, model: Any, x: Any, y: Any, batch: int, sizes: tuple[int, ...] = ()) -> None:
        self.model = model
        # A tuple of one, as Keras has it: two inputs in a tuple would be taken for an input and its target.
        self.x = (x,) if isinstance(x, tuple) else x
        self.sample = self.x if y is None else (x, y)
        self.batch = batch
        self.sizes = sizes
        self.seconds: list[tuple[int, float]] = []  # of training steps, with their sizes

    def run(self, plan: Plan, kinds: tuple[str, ...]) -> dict[str, Any]:
        """What was recorded of these kinds of steps, and what the model is made of."""
        is_cut = plan.setting(micro_batch.NAME) is not None or plan.setting(recompute.NAME) is not None
        training: list[Recorded] | str = NOT_ASKED
        if "training" in kinds:
            training = self._planned(plan) if is_cut else self._fitted()
        model = self.model
        weights, optimizers = [one.path for one in model.variables], keras_seams.optimizers(model)
        self.sizes = self.sizes[-2:]
        sizes = [keras_seams.bytes_of(one) for one in model.variables]
        slots = [(owner(one.path, weights), keras_seams.bytes_of(one)) for one in keras_seams.slots(optimizers)]
        trained = sum(map(keras_seams.bytes_of, model.trainable_variables))
        return {
            "training": training,
            "evaluation": self._tried("test", model.evaluate) if "evaluation" in kinds else NOT_ASKED,
            "prediction": self._tried("predict", model.predict) if "prediction" in kinds else NOT_ASKED,
            "sizes": self.sizes,
            "layers": [one.name for one in keras_seams.all_layers(model)],
            "optimizers": [one.name for one in optimizers],
            "data": samples.SCOPE,
            "compiled": self.is_compiled,
            "seconds": self.seconds,
            "trained": trained,
            "accumulators": accumulators(plan, training, sum(sizes) + sum(size for _, size in slots), trained),
            "weights": list(zip(weights, sizes, strict=True)),
            "slots": slots,
        }

    def _fitted(self) -> list[Recorded]:
        """Steps of plain `fit`."""
        return self._recorded("train", self.model.fit, climbs=True)

    def _tried(self, kind: str, run: Callable[..., Any]) -> list[Recorded] | str:
        """The recordings, or why there are none: not every model that trains can be evaluated."""
        try:
            return self._recorded(kind, run)
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    def _recorded(self, kind: str, run: Callable[..., Any], *, climbs: bool = False) -> list[Recorded]:
        """Steps of a model's own method: up the ladder, or at the sizes that are chosen already."""
        recorder = Recorder(kind)
        sizes: list[int] = []

        def each() -> Iterator[int]:
            chosen = self.sizes or COMPILED
            yield self._first if climbs else chosen[0]
            for size in self._climb(recorder.taken) if climbs else chosen:
                sizes.append(size)
                yield size

        data = samples.dataset(self.x if kind == "predict" else self.sample, each)
        with closing(recorder):
            run(data, verbose=0, callbacks=[recorder.callback()])
        if kind == "train":
            self.seconds = _timed(sizes, recorder.taken)
        # Keras begins a step before it finds that there are no more data.
        return self._tapes(sizes, recorder.steps[: len(sizes)], self._at_first(recorder.taken) if climbs else 0)

    def _at_first(self, taken: Sequence[Taken]) -> int:
        """What a training's very first step takes beside later ones of its size.

        It makes the optimizer's slots, and XLA's program puts each weight in a new place meanwhile. A model's slots
        are there before its steps are recorded, so that it does not show in them.
        """
        if not self.is_compiled:
            return 0
        weights = [] if self.model is None else self.model.trainable_variables
        return max(taken[0].peak - taken[1].peak, sum(map(keras_seams.bytes_of, weights)))

    def _tapes(self, sizes: list[int], steps: list[list[Event]], at_first: int) -> list[Recorded]:
        """The steps as tapes, each size's lines drawn from the size before."""
        by_size: dict[int, list[list[Event]]] = {}
        for size, events in zip(sizes, steps, strict=True):
            if self.is_compiled:
                by_size.pop(size, None)  # the first time, XLA compiles: what that takes is not the step's
            by_size.setdefault(size, []).append(events)
        self.sizes = tuple(sorted(by_size))
        return [
            Recorded(large, [scaled(by_size[small][0], small, one, large).beside(at_first) for one in by_size[large]])
            for small, large in itertools.pairwise(self.sizes)
        ]

    def _planned(self, plan: Plan) -> list[Recorded]:
        """Steps with remedies, as the guard runs them."""
        step, like = self._step(), self._like()
        slices, kept = plan.setting(micro_batch.NAME) or 1, plan.setting(recompute.NAME)
        assert isinstance(slices, int)

        def once(size: int) -> None:
            if slices == 1:
                step.whole(self._data(size), like)
            else:
                step.sliced(self._data(size), slicing.bounds(size, -(-size // slices)))

        if kept is not None:
            step.recompute(self._data(1), like, cutting.chooser(kept), samples=-(-self.batch // slices))
        found: list[Taken] = []
        with taken(found):
            once(self._first * slices)
        sizes: list[int] = []
        steps: list[list[Event]] = []
        for size in self._climb(found):
            sizes.append(size * slices)
            with recorded(steps, found):
                once(size * slices)
        self.seconds = _timed(sizes, found)
        tapes = self._tapes(sizes, steps, self._at_first(found))
        self.sizes = tuple(size // slices for size in self.sizes)
        return tapes

    @property
    def is_compiled(self) -> bool:
        """Whether XLA compiles the steps."""
        return bool(self.model.jit_compile)

    @property
    def _first(self) -> int:
        """Samples of the step that builds and traces everything, and is not recorded."""
        return COMPILED[0] if self.is_compiled else _FIRST

    @property
    def _climb(self) -> Callable[[Sequence[Taken]], Iterator[int]]:
        return climb_compiled if self.is_compiled else climb

    def _step(self) -> Runs:
        return model_step(self.model, "train_step")

    def _like(self) -> Any:
        return samples.any_size(self.sample)

    def _data(self, size: int) -> Any:
        (data,) = samples.dataset(self.sample, lambda: iter([size]))
        return data


def _timed(sizes: list[int], taken: list[Taken]) -> list[tuple[int, float]]:
    """Each recorded step's size and time; the first one that was taken was not recorded."""
    return [(size, one.seconds) for size, one in zip(sizes, taken[1:], strict=False)]


def accumulators(plan: Plan, training: list[Recorded] | str, known: int, trained: int) -> int:
    """What slices add up in: what is there beside the `known` bytes of variables, at most what is trained."""
    if isinstance(training, str):
        return 0
    beside = training[-1].tapes[0].base - known
    return max(0, min(beside, trained)) if isinstance(plan.setting(micro_batch.NAME), int) else 0


def owner(slot: str, weights: list[str]) -> str:
    """The weight that a slot belongs to: its path is in the slot's, with other dashes."""
    inside = [path for path in weights if path.replace("/", "_") in slot]
    return max(inside, key=len, default=slot)
