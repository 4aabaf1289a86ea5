"""What a step that Keras did not write returns, put together from its slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from fitroom.steps import replicas
from fitroom.steps.compiled import Compiled
from fitroom.steps.held import assemble, is_tensor
from fitroom.steps.probe import Verdict
from fitroom.steps.slice_pass import SlicePass, Taken
from fitroom.steps.state import State, native


class Results:
    """The results of one step.

    Args:
        metrics: gives the metrics whose results it returns by name.
        strategy: gives the distribution strategy under which they are fed.
        reduced: makes one result of what every replica returned.
        eager: whether the step runs eagerly.

    Attributes:
        template: what the step returned while it was traced.
    """

    def __init__(
        self,
        metrics: Callable[[], Sequence[Any]],
        strategy: Callable[[], Any],
        reduced: Callable[[Any], Any],
        *,
        eager: bool,
    ) -> None:
        self.template: Any = None
        self._strategy = strategy
        self._reduced = reduced
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
        leaves = iter(assemble(verdict.results, taken.results, taken.sizes) if taken.results[0] else [])
        held = assemble(verdict.held, taken.held, taken.sizes) if taken.held[0] else []
        self._held, self._fed = last.held_metrics, self._updated(written)
        named = self._finish(held)
        packed = tf.nest.map_structure(lambda leaf: next(leaves) if is_tensor(leaf) else leaf, self.template)
        packed = self._reduced(packed)
        return {**packed, **{key: named[key] for key in packed if key in named}} if named else packed

    def _updated(self, written: State) -> list[Any]:
        """The metrics that the step updates: a result of the same name is theirs."""
        ids = {id(one) for one in written.variables}
        return [one for one in self._metrics() if any(id(variable) in ids for variable in native(one.variables))]

    def _finish_step(self, held: list[Any]) -> dict[str, Any]:
        """Feed the metrics what was held back; the results of those that the step returns by name."""

        def on_replica(values: list[Any]) -> dict[str, Any]:
            for metric, value in zip(self._held, values, strict=True):
                metric.update_state(value)
            if not isinstance(self.template, dict):
                return {}
            return {metric.name: metric.result() for metric in self._fed if metric.name in self.template}

        found: dict[str, Any] = self._strategy().run(on_replica, args=(held,))
        own = replicas.parts(found)
        if len(own) == 1:
            return found
        return {name: tf.reduce_mean(tf.stack([one[name] for one in own]), 0) for name in own[0]}  # as plain Keras does
