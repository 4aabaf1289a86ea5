"""A step that Keras did not write: a model's own `train_step` or `test_step`, or a function with a GradientTape.

Its `apply` calls are found while it is traced (`sites`). With one of them, the update is held back to the end of the
step, as for Keras' own. With several, each sees what those before it did:

    whole    the step runs as it is; everything that it writes is kept, and put back where it fails
    sliced   one pass over the slices for each site. In pass j every slice starts from the old weights, sites before j
             put the weights in place that they are known to have led to, and site j adds up its gradients; then site
             j is applied, once. Seeds and metrics start anew in each pass, so that all passes draw the same numbers
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from fitroom.steps import graph_seams, mixing, probe, random_seams, slicing
from fitroom.steps.activations import bytes_of
from fitroom.steps.compiled import Compiled, any_batch
from fitroom.steps.held import assemble
from fitroom.steps.recomputation import Chooser, Recomputation, Saving
from fitroom.steps.sites import Capture, Site, Unsupported
from fitroom.steps.slice_pass import SlicePass, Taken, is_tensor
from fitroom.steps.state import State, native
from fitroom.steps.step import Phase, Step
from fitroom.steps.uninterrupted import uninterrupted
from fitroom.steps.update import Keeper, Update


class OwnStep(Step):
    """A step taken apart at its `apply` calls.

    Args:
        function: takes the batch, a nest of tensors, and returns a nest of results.
        name: what to call it in messages.
        trains: whether it should apply gradients; an evaluation does not.
        jit_compile, eager: how it is to run.
        strategy: the distribution strategy it runs under.
        metrics: gives the metrics whose results it returns by name.
        obstacles: gives what its structure tells against slicing.
        random_layers: gives what draws random numbers in it.
        eager_state: gives all variables that it may write, where it runs eagerly; without it, a trace tells.
    """

    phase: Phase = "gradients"

    def __init__(
        self,
        function: Callable[[Any], Any],
        name: str,
        *,
        trains: bool = True,
        jit_compile: bool = False,
        eager: bool = False,
        strategy: Any = None,
        metrics: Callable[[], Sequence[Any]] = tuple,
        obstacles: Callable[[], list[mixing.Obstacle]] = list,
        random_layers: Callable[[], list[str]] = list,
        eager_state: Callable[[], list[Any]] | None = None,
    ) -> None:
        self.function = function
        self.name = name
        self.trains = trains
        self.eager = eager
        self.jit_compile = jit_compile
        self.strategy = strategy or tf.distribute.get_strategy()
        self.metrics = metrics
        self._random_layers = random_layers
        self.sites: list[Site] = []
        self._structural = obstacles
        self._eager_state = eager_state
        self._updates: dict[int, Update] = {}
        self._compile()
        self._looks_back = False
        self._traced = False
        self._hidden_random: set[str] = set()
        self._small: State | None = None  # what the step writes besides weights and slots
        self._all: State | None = None  # everything that it writes
        self._weights = State([])  # what its sites update, and each site for itself
        self._of_sites: list[State] = []
        self._before: tuple[State, list[Any]] | None = None
        self._keeper: Keeper | None = None
        self._found: probe.Verdict | None = None
        self._held: list[Any] = []
        self._finish = Compiled(self._finish_step, eager=eager)
        self._template: Any = None

    def _compile(self, recomputation: Recomputation | None = None) -> None:
        options = {"jit_compile": self.jit_compile, "eager": self.eager}
        self._captured = Compiled(self._captured_step, **options, change=recomputation)
        self._as_is = Compiled(self.function, **options, change=recomputation)
        self._slices: dict[int, SlicePass] = {}
        self._recomputation = recomputation

    # --- what kind of step it is -----------------------------------------------------------------------------------

    def spread(self, data: Any, count: int, shift: int) -> Any:
        """The data of a few samples from all over the batch."""
        return slicing.spread(data, count, shift)

    def cut(self, data: Any, start: int, stop: int) -> Any:
        """The data of some samples."""
        return slicing.cut(data, start, stop)

    @property
    def is_deferred(self) -> bool:
        """Whether the update can wait for the end of the step: nothing in it looks at what the update changes."""
        return len(self.sites) <= 1 and not self._looks_back

    @property
    def small(self) -> State:
        """What the step writes besides weights and slots: seeds, statistics, metrics."""
        assert self._small is not None, "asked before it was traced"
        return self._small

    @property
    def returns_metrics(self) -> bool:
        """Whether all it returns are metrics' results, by name, which are asked again at the end."""
        return isinstance(self._template, dict) and set(self._template) <= {one.name for one in self._fed_metrics()}

    def _fed_metrics(self) -> list[Any]:
        """The metrics that the step updates: a result of the same name is theirs."""
        written = {id(one) for one in self.small.variables}
        return [one for one in self.metrics() if any(id(variable) in written for variable in native(one.variables))]

    def trace(self, data: Any, like: Any = None) -> None:
        """Find the sites, if that has not been done."""
        if self.eager:
            if self._traced:
                return
            # Eagerly nothing tells what is written: one trace, not run, does.
            traced = Compiled(self._captured_step)
            try:
                function = traced.concrete((data,), like=None if like is None else (like,))
            except Exception as error:  # whatever a user's Python does with a tensor that has no value
                raise Unsupported(f"{self.name} cannot be traced ({type(error).__name__})") from error
        else:
            function = self._captured.concrete((data,), like=None if like is None else (like,))
        if not self._traced:
            self._learn(function)
            self._traced = True

    def _captured_step(self, data: Any) -> tuple[Any, list[Any]]:
        with Capture().active() as capture:
            result = self.function(data)
        if not self.eager or not tf.executing_eagerly():
            if not self.sites:
                self.sites = capture.sites
                self._looks_back = bool(capture.sites) and capture.reads_after_last()
            self._template = result
        return result, capture.gradients[0] if capture.gradients else []

    def _learn(self, function: Any) -> None:
        if self.trains and not self.sites:
            raise Unsupported(f"{self.name} does not apply gradients through a Keras optimizer")
        weights = [one for site in self.sites for one in site.variables]
        slots = [one for site in self.sites for one in site.optimizer.variables]
        large = {id(one) for one in native([*weights, *slots])}
        self._hidden_random = random_seams.hidden_random_operations(function)
        written = graph_seams.written_variables(function)
        small = [one for one in written if id(one) not in large]
        self._small = State(small)
        self._weights = State(_unique(native(weights)))
        self._of_sites = [State(native(site.variables)) for site in self.sites]
        self._all = State(_unique([*small, *native(weights), *native(slots)]))

    # --- whole -----------------------------------------------------------------------------------------------------

    def whole(self, data: Any, like: Any) -> Any:
        self.phase = "gradients"
        if self.eager and self._eager_state is not None:
            # Nothing is traced: it runs as it is, and what it may write is known from elsewhere.
            self._keep(self._eagerly_written(self._eager_state()))
            result = self.function(data)
            self._keeper = None
            return result
        self.trace(data, like)
        if self.is_deferred:
            self._remember()
            result, gradients = self._captured(data)
            self._apply_last(list(gradients))
            return result
        self._keep(self._all)
        if not self.eager:
            self._as_is.concrete((data,), like=None if like is None else (like,))
        result = self._as_is(data)
        self._keeper = None
        return result

    def _apply_last(self, gradients: list[Any]) -> None:
        if not self.sites:
            self._before = None
            return
        self.phase = "update"
        with uninterrupted():
            self._update(0)(gradients)
            self._before = None

    def _update(self, number: int) -> Update:
        if number not in self._updates:
            site = self.sites[number]
            options = {"jit_compile": self.jit_compile, "eager": self.eager}
            self._updates[number] = Update(site.optimizer, site.variables, self.strategy, **options)
        return self._updates[number]

    # --- sliced ----------------------------------------------------------------------------------------------------

    def sliced(self, data: Any, bounds: Iterable[tuple[int, int]]) -> Any:
        self.phase = "gradients"
        self.trace(data)
        verdict = self.verdict(data)
        if self.is_deferred:
            self._remember()
            only = self._pass(0)
            taken = only.run(data, bounds, verdict, known=[], old=None)
            result = self._results(only, taken, verdict)
            self._apply_last(only.gradients(taken))
            return result
        self._keep(self._all)
        return self._passes(data, bounds, verdict)

    def _passes(self, data: Any, bounds: Iterable[tuple[int, int]], verdict: probe.Verdict) -> Any:
        weights = self._weights
        old, start = weights.read(), self.small.read()
        known: list[list[Any]] = []
        last, taken = self._pass(0), Taken()
        for number in range(len(self.sites) + self._looks_back):
            self.small.write(start)
            self.phase = "gradients"
            last = self._pass(number)
            taken = last.run(data, bounds, verdict, known, old=(weights, old))
            bounds = taken.bounds  # the same cuts in every pass: the same random numbers
            if number == len(self.sites):
                break
            self.phase = "update"
            weights.write(old)
            self._put(known)
            self._update(number)(last.gradients(taken))
            known.append(self._of_sites[number].read())
        weights.write(old)
        self._put(known)
        result = self._results(last, taken, verdict)
        self._keeper = None
        return result

    def _put(self, known: list[list[Any]]) -> None:
        for state, values in zip(self._of_sites, known, strict=False):
            state.write(values)

    def relaxed(self, part: Any) -> Any:
        """What slices of any size are like."""
        return any_batch(part)

    def _pass(self, number: int) -> SlicePass:
        if number not in self._slices:
            self._slices[number] = SlicePass(self, number, self._recomputation)
        return self._slices[number]

    def _results(self, last: SlicePass, taken: Taken, verdict: probe.Verdict) -> Any:
        sizes = [stop - start for start, stop in taken.bounds]
        leaves = assemble(verdict.results, taken.results, sizes) if taken.results[0] else []
        fed = assemble(verdict.held, taken.held, sizes) if taken.held[0] else []
        self._held = last.held_metrics
        named = self._finish(fed)
        rest = iter(leaves)
        packed = tf.nest.map_structure(lambda leaf: next(rest) if is_tensor(leaf) else leaf, self._template)
        return {**packed, **{key: named[key] for key in packed if key in named}} if named else packed

    def _finish_step(self, fed: list[Any]) -> dict[str, Any]:
        """Feed the metrics what was held back; the results of those that the step returns by name."""
        for metric, value in zip(self._held, fed, strict=True):
            metric.update_state(value)
        if not isinstance(self._template, dict):
            return {}
        return {metric.name: metric.result() for metric in self._fed_metrics() if metric.name in self._template}

    # --- after a failure -------------------------------------------------------------------------------------------

    def roll_back(self) -> None:
        with uninterrupted():
            if self._before is not None:
                state, values = self._before
                state.write(values)
                self._before = None
            if self._keeper is not None:
                self._keeper.put_back()
                self._keeper = None

    def tighten(self) -> bool:
        return sum(update.tighten() for update in self._updates.values()) > 0

    def recompute(self, data: Any, like: Any, choose: Chooser) -> Saving | None:
        if not self.trains or self.eager:
            return None
        recomputation = Recomputation(choose, samples=self.samples(data), xla=self.jit_compile)
        self._compile(recomputation)
        if self._traced and not self.is_deferred:
            self._as_is.concrete((data,), like=None if like is None else (like,))
        else:
            self.trace(data, like)
        if recomputation.saving is None:
            self._compile()
        return recomputation.saving

    def gradient_bytes(self) -> int:
        return sum(map(bytes_of, self._weights.variables))

    def _remember(self) -> None:
        self._before = self.small, self.small.read()

    def _keep(self, state: State | None) -> None:
        assert state is not None, "asked before it was traced"
        keeper = Keeper()
        keeper.keep(state)
        self._keeper = keeper

    def _eagerly_written(self, variables: list[Any]) -> State:
        """These variables as a State, made anew only where there are others: reading one is traced."""
        found = _unique(native(variables))
        if self._all is None or {id(one) for one in self._all.variables} != {id(one) for one in found}:
            self._all = State(found)
        return self._all

    # --- does slicing keep the math? -------------------------------------------------------------------------------

    def obstacles(self, data: Any) -> list[mixing.Obstacle]:
        structural = self._structural()
        if structural:
            return structural
        try:
            self.trace(data)
        except Unsupported as error:
            return [mixing.Obstacle(str(error), "and so not be taken apart", can_be_allowed=False)]
        if self.strategy is not tf.distribute.get_strategy():
            return [mixing.Obstacle(self.name, "runs under a distribution strategy", can_be_allowed=False)]
        return self.verdict(data).obstacles

    def random_layers(self) -> list[str]:
        return self._random_layers()

    def hidden_random(self) -> set[str]:
        return self._hidden_random

    def verdict(self, data: Any) -> probe.Verdict:
        """What a few samples tell; found out once."""
        if self._found is None:
            self.trace(data)
            self._found = probe.own_step(self, data)
        return self._found


def _unique(variables: list[Any]) -> list[Any]:
    return list({id(one): one for one in variables}.values())
