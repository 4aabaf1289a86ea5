"""Where a step applies gradients: taken down while it is traced, instead of carried out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from fitroom.errors import FitroomError
from fitroom.steps import graph_seams, keras_seams, optimizer_seams, replicas
from fitroom.steps.accumulators import kind_of
from fitroom.steps.state import native


class Unsupported(FitroomError):
    """A training step of a kind that cannot be taken apart."""


class NoUpdate(Unsupported):
    """A step that does not train, as far as can be seen."""


@dataclass(frozen=True)
class Site:
    """One call of an optimizer's `apply`; of several replicas, which all make it, the first one's.

    Attributes:
        kinds: dense, sparse or none: each variable's gradient.
        strategy: the distribution strategy under which it is called.
    """

    optimizer: Any
    variables: list[Any]
    kinds: list[str]
    strategy: Any


class Capture:
    """While it is active, every optimizer's `apply` is taken down, in order.

    Args:
        known: for the first sites, the values that they gave their variables: these are put in place, so that what
            follows sees them.
    """

    def __init__(self, known: Sequence[Sequence[Any]] = ()) -> None:
        self.known = known
        self._taken: dict[int, list[tuple[Site, list[Any]]]] = {}  # by replica
        self._graph: Any = None
        self._position = 0
        self._problem: str | None = None

    @property
    def sites(self) -> list[Site]:
        """Where gradients were applied, in order."""
        return [site for site, _ in self._taken.get(0, ())]

    @property
    def gradients(self) -> list[list[Any]]:
        """What each site was given; of several replicas, each one's."""
        by_replica = [[given for _, given in self._taken[replica]] for replica in sorted(self._taken)]
        return [replicas.together(list(given)) for given in zip(*by_replica, strict=True)]

    @contextmanager
    def active(self) -> Iterator[Capture]:
        """Take down."""
        self._graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        # Variables made in a trace would belong to it, and be of no use outside.
        no_new_variables = nullcontext() if self._graph is None else tf.variable_creator_scope(self._refuse)
        try:
            with keras_seams.every_apply(self._take_down), no_new_variables:
                yield self
        except Exception as error:
            if self._problem is None:
                raise
            # AutoGraph makes other exceptions of those that pass through it.
            raise Unsupported(self._problem) from error

    def reads_after_last(self) -> bool:
        """Whether what follows the last site looks at something that the sites changed. Asked while tracing."""
        changed = [one for site in self.sites for one in (*site.variables, site.optimizer.iterations)]
        return graph_seams.reads(self._graph, native(changed), self._position)

    def _refuse(self, next_creator: Any, **options: Any) -> Any:
        if tf.executing_eagerly():  # lifted out of the trace, as Keras makes its own
            return next_creator(**options)
        self._problem = "The step makes variables while it runs"
        raise Unsupported(self._problem)

    def _take_down(self, optimizer: Any, gradients: Any, variables: Any) -> None:
        graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        if graph is not self._graph:
            self._problem = "The step applies gradients inside a loop, a condition or a function of its own"
            raise Unsupported(self._problem)
        gradients = list(gradients)
        variables = list(optimizer_seams.trained_variables(optimizer) if variables is None else variables)
        if not optimizer.built:
            with tf.init_scope():
                optimizer.build(variables)
        taken = self._taken.setdefault(replicas.here(), [])
        number = len(taken)
        kinds = [kind_of(gradient) for gradient in gradients]
        taken.append((Site(optimizer, variables, kinds, tf.distribute.get_strategy()), gradients))
        if number < len(self.known):
            every = native(variables)  # each variable's on every replica
            pairs = list(zip(every, self.known[number], strict=True))
            for variable, value in pairs[replicas.here() :: len(every) // max(len(variables), 1) or 1]:
                variable.assign(value, read_value=False)
        if graph is not None:
            self._position = len(graph.get_operations())
