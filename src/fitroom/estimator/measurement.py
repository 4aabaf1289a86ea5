"""Small steps of a model on the pocket device, recorded: of training, evaluation and prediction."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from fitroom.core import Plan
from fitroom.estimator import keras_seams, profiler_seams, samples
from fitroom.estimator.profiler_seams import Event
from fitroom.estimator.recorder import Recorder, Taken, between_marks, taken
from fitroom.estimator.tape import Recorded, scaled
from fitroom.remedies import micro_batch, recompute
from fitroom.steps import cutting, slicing
from fitroom.steps.model_step import model_step
from fitroom.units import MIB

_FIRST = 2  # samples of the step that builds and traces everything
_MOST = 64
_ROOM = 768 * MIB  # what the largest recorded step may take for its samples
_COMPILED = (8, 16)  # sizes where XLA compiles for each
_TIMES = 2  # how often a size is recorded: threads do things in another order each time
_MORE_TIMES = 3  # the largest, from which all larger ones follow
_STEPS = 4.5  # the largest step's samples go through so many times, all recordings together


class Measurement:
    """The recordings of one model.

    Args:
        model: compiled and built.
        x, y: a few samples; `y` is None where the model trains without targets.
        batch: the size that is asked for, by which recomputation is chosen.
    """

    def __init__(self, model: Any, x: Any, y: Any, batch: int) -> None:
        self.model = model
        self.x = x
        self.sample = x if y is None else (x, y)
        self.batch = batch
        self.sizes: tuple[int, ...] = ()

    def run(self, plan: Plan) -> dict[str, Any]:
        """What was recorded, and what the model is made of."""
        training = self._planned(plan) if plan.remedies else self._fitted()
        model = self.model
        weights, optimizers = [one.path for one in model.variables], keras_seams.optimizers(model)
        self.sizes = self.sizes[-2:]
        sizes = [_bytes(one) for one in model.variables]
        slots = [(_owner(one.path, weights), _bytes(one)) for optimizer in optimizers for one in optimizer.variables]
        beside = training[-1].tapes[0].base - sum(sizes) - sum(size for _, size in slots)
        is_sliced = isinstance(plan.setting(micro_batch.NAME), int)
        return {
            "training": training,
            "evaluation": self._tried("test", model.evaluate),
            "prediction": self._tried("predict", model.predict),
            "layers": [one.name for one in keras_seams.all_layers(model)],
            "optimizers": [one.name for one in optimizers],
            "data": samples.SCOPE,
            "accumulators": max(0, min(beside, sum(map(_bytes, model.trainable_variables)))) if is_sliced else 0,
            "weights": list(zip(weights, sizes, strict=True)),
            "slots": slots,
        }

    def _fitted(self) -> list[Recorded]:
        """Steps of plain `fit`."""
        if not self.model.jit_compile:
            return self._recorded("train", self.model.fit)
        self.sizes = _COMPILED
        return self._recorded("train", self.model.fit)

    def _tried(self, kind: str, run: Callable[..., Any]) -> list[Recorded] | str:
        """The recordings, or why there are none: not every model that trains can be evaluated."""
        try:
            return self._recorded(kind, run)
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    def _recorded(self, kind: str, run: Callable[..., Any]) -> list[Recorded]:
        """Steps of a model's own method. Where no sizes are chosen yet, the first two steps choose them."""
        chosen = bool(self.sizes)
        recorder = Recorder(kind, before=1 if chosen else 2)

        def sizes() -> Iterator[int]:
            if chosen:
                yield self.sizes[0]
            else:
                yield _FIRST
                yield 2 * _FIRST
                self._choose(recorder.unrecorded)
            yield from self._sequence()

        data = samples.dataset(self.x if kind == "predict" else self.sample, sizes)
        between = len(self.sizes) - 2 if chosen else 1
        steps = recorder.before + 1 + _TIMES * between + _MORE_TIMES
        run(
            data,
            verbose=0,
            callbacks=[recorder.callback()],
            **{"steps_per_epoch" if kind == "train" else "steps": steps},
        )
        return self._tapes(recorder.steps())

    def _choose(self, steps: list[Taken]) -> None:
        """A ladder of three sizes, as large as memory has room for, and as the first step's time allows.

        The larger the better: a kernel may work otherwise on larger batches.
        """
        first, second = steps
        per_sample = max(second.peak - first.peak, 1) / _FIRST
        seconds = second.seconds / (2 * _FIRST)
        most = min(_MOST, int(_ROOM / per_sample), int(first.seconds / (_STEPS * seconds)))
        large = max(most, 8) // 4 * 4
        self.sizes = (large // 4, large // 2, large)

    def _sequence(self) -> list[int]:
        middle = [size for size in self.sizes[1:-1] for _ in range(_TIMES)]
        return [self.sizes[0], *middle, *[self.sizes[-1]] * _MORE_TIMES]

    def _tapes(self, steps: list[list[Event]]) -> list[Recorded]:
        by_size = {
            size: [events for _, events in group]
            for size, group in itertools.groupby(zip(self._sequence(), steps, strict=True), key=lambda one: one[0])
        }
        return [
            Recorded(large, [scaled(by_size[small][0], small, one, large) for one in by_size[large]])
            for small, large in itertools.pairwise(self.sizes)
        ]

    def _planned(self, plan: Plan) -> list[Recorded]:
        """Steps with remedies, as the guard runs them."""
        step = model_step(self.model, "train_step")
        like = samples.any_size(self.sample)
        slices, kept = plan.setting(micro_batch.NAME) or 1, plan.setting(recompute.NAME)
        assert isinstance(slices, int)

        def once(size: int) -> None:
            (data,) = samples.dataset(self.sample, lambda: iter([size]))
            if slices == 1:
                step.whole(data, like)
            else:
                step.sliced(data, slicing.bounds(size, -(-size // slices)))

        if kept is not None:
            one = tf.nest.map_structure(tf.convert_to_tensor, samples.batch(self.sample, 1))
            step.recompute(one, like, cutting.chooser(kept), samples=-(-self.batch // slices))
        found: list[Taken] = []
        for size in (_FIRST, 2 * _FIRST):
            with taken(found):
                once(size * slices)
        self._choose(found)
        plain, self.sizes = self.sizes, tuple(size * slices for size in self.sizes)
        with profiler_seams.recording() as trace:
            for number, size in enumerate(self._sequence()):
                with profiler_seams.marked(str(number)):
                    once(size)
        tapes = self._tapes(between_marks(trace.events))
        self.sizes = plain
        return tapes


def _bytes(variable: Any) -> int:
    elements: int = math.prod(variable.shape)
    return elements * int(variable.value.dtype.size)


def _owner(slot: str, weights: list[str]) -> str:
    """The weight that a slot belongs to: its path is in the slot's, with other dashes."""
    inside = [path for path in weights if path.replace("/", "_") in slot]
    return max(inside, key=len, default=slot)
