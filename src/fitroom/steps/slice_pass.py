"""One pass over the slices of a batch, in a step that Keras did not write."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from fitroom.steps import replicas, slicing
from fitroom.steps.accumulators import Accumulators
from fitroom.steps.compiled import Compiled
from fitroom.steps.held import Held, as_tensor, is_tensor
from fitroom.steps.probe import Verdict
from fitroom.steps.recomputation import Recomputation
from fitroom.steps.sites import Capture
from fitroom.steps.state import State

if TYPE_CHECKING:
    from fitroom.steps.own_step import OwnStep


@dataclass
class Taken:
    """What the slices of a pass gave, slice by slice; `sizes` are their samples, on every replica."""

    bounds: list[tuple[int, int]] = field(default_factory=list)
    sizes: list[Any] = field(default_factory=list)
    results: list[list[Any]] = field(default_factory=list)
    held: list[list[Any]] = field(default_factory=list)
    sparse: list[list[Any]] = field(default_factory=list)


class SlicePass:
    """All slices once; one site adds up its gradients.

    Args:
        step: whose slices.
        number: which site, counted from 0; after the last one, none.
        recomputation: what to compute again on the way back.
    """

    def __init__(self, step: OwnStep, number: int, recomputation: Recomputation | None = None) -> None:
        self.step = step
        self.number = number
        self.held_metrics: list[Any] = []  # those whose values were held back
        options = {"jit_compile": step.jit_compile, "eager": step.eager}
        self._compiled = Compiled(self._slice, **options, change=recomputation)
        self._accumulators: Accumulators | None = None
        if number < len(step.sites):
            site = step.sites[number]
            self._accumulators = Accumulators(site.variables, site.kinds)

    def run(
        self,
        data: Any,
        bounds: Iterable[tuple[int, int]],
        verdict: Verdict,
        known: list[list[Any]],
        old: tuple[State, list[Any]] | None,
    ) -> Taken:
        """Run the slices, each from the `old` weights, with what the sites before this one are `known` to lead to."""
        step, totals = self.step, slicing.sizes(self.step.batch(data))
        if self._accumulators is not None:
            self._accumulators.clear()
        at_first = verdict.once.read()  # to happen once, not in every slice
        is_sum = self.number < len(verdict.sites) and verdict.sites[self.number] == "sum"
        taken = Taken()
        for start, stop in bounds:
            if taken.bounds:
                verdict.once.write(at_first)
            if old is not None:
                old[0].write(old[1])
            part = step.cut(data, start, stop)
            own = slicing.sizes(step.batch(part))
            shares = replicas.each(lambda one, all_: tf.constant(1.0) if is_sum else _share(one, all_), own, totals)
            arguments = (part, shares, known)
            if not step.eager:
                self._compiled.concrete(arguments, like=(step.relaxed(part), *arguments[1:]))
            results, held, sparse = self._compiled(*arguments)
            taken.bounds.append((start, stop))
            taken.sizes.append(own)
            taken.results.append(list(results))
            taken.held.append(list(held))
            taken.sparse.append(list(sparse))
        return taken

    def most_per_sample(self) -> int | None:
        """What one more sample in a slice takes at most."""
        return self._compiled.most_per_sample()

    def gradients(self, taken: Taken) -> list[Any]:
        """The site's gradients over all slices."""
        return [] if self._accumulators is None else self._accumulators.total(taken.sparse)

    def _slice(self, part: Any, shares: Any, known: Any) -> tuple[list[Any], list[Any], list[Any]]:
        held = Held()
        with Capture(known).active() as capture, held.active():
            result = self.step.on_replicas(part)
        sparse: list[Any] = []
        if self._accumulators is not None:
            gradients = capture.gradients[self.number]
            count = replicas.count(gradients)
            own = zip(replicas.parts(gradients, count), replicas.parts(shares, count), strict=True)
            sparse = replicas.together([self._accumulators.add(*one, replica=number) for number, one in enumerate(own)])
        self.held_metrics = held.metrics
        return [as_tensor(leaf) for leaf in tf.nest.flatten(result) if is_tensor(leaf)], held.values, sparse


def _share(samples: Any, all_samples: Any) -> Any:
    return tf.constant(int(samples) / int(all_samples), tf.float32)
