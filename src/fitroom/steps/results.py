"""What a step that Keras did not write returns, put together from its slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from fitroom.steps.compiled import Compiled
from fitroom.steps.held import assemble
from fitroom.steps.probe import Verdict
from fitroom.steps.slice_pass import SlicePass, Taken, is_tensor
from fitroom.steps.state import State, native


class Results:
    """The results of one step.

    Args:
        metrics: gives the metrics whose results it returns by name.
        eager: whether the step runs eagerly.

    Attributes:
        template: what the step returned while it was traced.
    """

    def __init__(self, metrics: Callable[[], Sequence[Any]], *, eager: bool) -> None:
        self.template: Any = None
        self._metrics = metrics
        self._fed: list[Any] = []  # the metrics that are fed, and asked, when all slices are through
        self._held: list[Any] = []
        self._finish = Compiled(self._finish_step, eager=eager)

    def are_metrics(self, written: State) -> bool:
        """Whether all of them are metrics' results, by name, which are asked again at the end."""
        names = {one.name for one in self._updated(written)}
        return isinstance(self.template, dict) and set(self.template) <= names

    def together(self, last: SlicePass, taken: Taken, verdict: Verdict, written: State) -> Any:
        """The whole batch's, from what the slices of the last pass gave; `written` is what the step writes."""
        sizes = [stop - start for start, stop in taken.bounds]
        leaves = iter(assemble(verdict.results, taken.results, sizes) if taken.results[0] else [])
        held = assemble(verdict.held, taken.held, sizes) if taken.held[0] else []
        self._held, self._fed = last.held_metrics, self._updated(written)
        named = self._finish(held)
        packed = tf.nest.map_structure(lambda leaf: next(leaves) if is_tensor(leaf) else leaf, self.template)
        return {**packed, **{key: named[key] for key in packed if key in named}} if named else packed

    def _updated(self, written: State) -> list[Any]:
        """The metrics that the step updates: a result of the same name is theirs."""
        ids = {id(one) for one in written.variables}
        return [one for one in self._metrics() if any(id(variable) in ids for variable in native(one.variables))]

    def _finish_step(self, held: list[Any]) -> dict[str, Any]:
        """Feed the metrics what was held back; the results of those that the step returns by name."""
        for metric, value in zip(self._held, held, strict=True):
            metric.update_state(value)
        if not isinstance(self.template, dict):
            return {}
        return {metric.name: metric.result() for metric in self._fed if metric.name in self.template}
