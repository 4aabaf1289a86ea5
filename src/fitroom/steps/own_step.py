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

from fitroom.oom import Exhaustion
from fitroom.steps import graph_seams, mixing, probe, slicing
from fitroom.steps.compiled import Compiled, any_batch
from fitroom.steps.held import as_tensor, is_tensor
from fitroom.steps.recomputation import Chooser, Recomputation, Saving
from fitroom.steps.results import Results
from fitroom.steps.sites import Capture, NoUpdate, Site, Unsupported
from fitroom.steps.slice_pass import SlicePass, Taken
from fitroom.steps.state import Current, State
from fitroom.steps.step import Phase, Step
from fitroom.steps.uninterrupted import uninterrupted
from fitroom.steps.update import Keeper, Update
from fitroom.steps.written import Written


class OwnStep(Step):
    """A step taken apart at its `apply` calls.

    Args:
        function: takes the batch, a nest of tensors, and returns a nest of results.
        name: what to call it in messages.
        trains: whether it should apply gradients; an evaluation does not.
        jit_compile, eager: how it is to run.
        strategy: the distribution strategy that its function runs it under, where that is known.
        on_replicas, reduced: the function in two: what every replica returns, and the one result of that.
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
        on_replicas: Callable[[Any], Any] | None = None,
        reduced: Callable[[Any], Any] = lambda result: result,
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
        self._strategy = strategy
        self.on_replicas = on_replicas or function
        self.results = Results(metrics, lambda: self.strategy, reduced, eager=eager)
        self._random_layers = random_layers
        self.sites: list[Site] = []
        self._structural = obstacles
        self._eager_state = eager_state
        self._updates: dict[int, Update] = {}
        self._compile()
        self._looks_back = False
        self._written: Written | None = None
        self._eagerly = Current()  # what it may write, where it runs eagerly
        self._before: tuple[State, list[Any]] | None = None
        self._keeper: Keeper | None = None
        self._found: probe.Verdict | None = None

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
    def strategy(self) -> Any:
        """The distribution strategy under which it trains, or evaluates."""
        return self._strategy or (self.sites[0].strategy if self.sites else tf.distribute.get_strategy())

    @property
    def is_deferred(self) -> bool:
        """Whether the update can wait for the end of the step: nothing in it looks at what the update changes."""
        return len(self.sites) <= 1 and not self._looks_back

    @property
    def written(self) -> Written:
        """What it writes; known once it has been traced."""
        assert self._written is not None, "asked before it was traced"
        return self._written

    def trace(self, data: Any, like: Any = None) -> None:
        """Find the sites, if that has not been done."""
        if self.eager:
            if self._written is not None:
                return
            # Eagerly nothing tells what is written: one trace, not run, does.
            traced = Compiled(self._captured_step)
            try:
                function = traced.concrete((data,), like=None if like is None else (like,))
            except Exception as error:  # whatever a user's Python does with a tensor that has no value
                raise Unsupported(f"{self.name} cannot be traced ({type(error).__name__})") from error
        else:
            function = self._captured.concrete((data,), like=None if like is None else (like,))
        if self._written is None:
            if graph_seams.draws(function):
                raise Unsupported(
                    f"{self.name} draws its batches itself, and what it drew is gone. Try: give it the batch"
                )
            if self.trains and not self.sites:
                raise NoUpdate(f"{self.name} does not apply gradients through a Keras optimizer")
            self._written = Written(function, self.sites)

    def _captured_step(self, data: Any) -> tuple[Any, list[Any]]:
        with Capture().active() as capture:
            result = self.function(data)
            if not tf.executing_eagerly():  # a variable that is returned is read after the update
                result = tf.nest.map_structure(lambda leaf: as_tensor(leaf) if is_tensor(leaf) else leaf, result)
        if not self.eager or not tf.executing_eagerly():
            if not self.sites:
                self.sites = capture.sites
                self._looks_back = bool(capture.sites) and capture.reads_after_last()
            self.results.template = result
        return result, capture.gradients[0] if capture.gradients else []

    # --- whole -----------------------------------------------------------------------------------------------------

    def whole(self, data: Any, like: Any) -> Any:
        self.phase = "gradients"
        if self.eager and self._eager_state is not None:
            # Nothing is traced: it runs as it is, and what it may write is known from elsewhere.
            self._keep(self._eagerly.of(self._eager_state()))
            result = self.function(data)
            self._keeper = None
            return result
        self.trace(data, like)
        if self.is_deferred:
            self._remember()
            result, gradients = self._captured(data)
            self._apply_last(list(gradients))
            return result
        self._keep(self.written.all)
        if not self.eager:
            self._as_is.concrete((data,), like=None if like is None else (like,))
        result = self._as_is(data)
        self._keeper = None
        return result

    def most_alive(self, data: Any, like: Any) -> int | None:
        if self.eager:
            return None
        self.trace(data, like)
        return self._captured.most_alive(data, self.samples(data))

    def trained(self) -> list[Any]:
        return list({id(one): one for site in self.sites for one in site.variables}.values())

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
            self._updates[number] = Update(site.optimizer, site.variables, site.strategy, **options)
        return self._updates[number]

    # --- sliced ----------------------------------------------------------------------------------------------------

    def sliced(self, data: Any, bounds: Iterable[tuple[int, int]]) -> Any:
        self.phase = "gradients"
        if self._written is None:
            self.trace(data)
        verdict = self.verdict(data)
        if not self._slices:  # from now on in slices: what was traced for whole batches can go, with its constants
            self._captured.forget()
            self._as_is.forget()
        if self.is_deferred:
            self._remember()
            only = self._pass(0)
            taken = only.run(data, bounds, verdict, known=[], old=None)
            result = self.results.together(only, taken, verdict, self.written.small)
            self._apply_last(only.gradients(taken))
            return result
        self._keep(self.written.all)
        return self._passes(data, bounds, verdict)

    def _passes(self, data: Any, bounds: Iterable[tuple[int, int]], verdict: probe.Verdict) -> Any:
        weights = self.written.weights
        old, start = weights.read(), self.written.small.read()
        known: list[list[Any]] = []
        last, taken = self._pass(0), Taken()
        for number in range(len(self.sites) + self._looks_back):
            self.written.small.write(start)
            self.phase = "gradients"
            last = self._pass(number)
            taken = last.run(data, bounds, verdict, known, old=(weights, old))
            bounds = taken.bounds  # the same cuts in every pass: the same random numbers
            if number == len(self.sites):
                break
            self.phase = "update"
            weights.write(old)
            self.written.put(known)
            self._update(number)(last.gradients(taken))
            known.append(self.written.of_sites[number].read())
        weights.write(old)
        self.written.put(known)
        result = self.results.together(last, taken, verdict, self.written.small)
        self._keeper = None
        return result

    def most_per_sample(self) -> int | None:
        found = [one.most_per_sample() or 0 for one in self._slices.values()]
        return max(found) if found and all(found) else None

    def relaxed(self, part: Any) -> Any:
        """What slices of any size are like."""
        return any_batch(part)

    def _pass(self, number: int) -> SlicePass:
        if number not in self._slices:
            self._slices[number] = SlicePass(self, number, self._recomputation)
        return self._slices[number]

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

    def survived(self) -> list[Exhaustion]:
        return [found for update in self._updates.values() for found in update.take_survived()]

    def recompute(self, data: Any, like: Any, choose: Chooser, samples: int | None = None) -> Saving | None:
        if not self.trains or self.eager:
            return None
        recomputation = Recomputation(choose, samples=samples or self.samples(data), xla=self.jit_compile)
        self._compile(recomputation)
        if self._written is not None and not self.is_deferred:
            self._as_is.concrete((data,), like=None if like is None else (like,))
        else:
            self.trace(data, like)
        if recomputation.saving is None:
            self._compile()
        return recomputation.saving

    def _remember(self) -> None:
        self._before = self.written.small, self.written.small.read()

    def _keep(self, state: State) -> None:
        keeper = Keeper()
        keeper.keep(state)  # may fail: then there is nothing to put back
        self._keeper = keeper

    def written_variables(self) -> list[Any]:
        return self._written.all.variables if self._written is not None else []

    def obstacles(self, data: Any) -> list[mixing.Obstacle]:
        if structural := self._structural():
            return structural
        try:
            self.trace(data)
        except Unsupported as error:
            return [mixing.Obstacle(str(error), "and so not be taken apart", can_be_allowed=False)]
        return self.verdict(data).obstacles

    def random_layers(self) -> list[str]:
        return self._random_layers()

    def hidden_random(self) -> set[str]:
        return set() if self._written is None else self._written.hidden_random

    def verdict(self, data: Any) -> probe.Verdict:
        """What a few samples tell; found out once."""
        if self._found is None:
            self.trace(data)
            self._found = probe.own_step(self, data)
        return self._found
