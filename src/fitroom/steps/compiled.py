"""A Python function, compiled as Keras would compile it, and called at little cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from fitroom.steps import graph_seams
from fitroom.steps.activations import most_alive, most_per_sample


class Compiled:
    """A function that is traced once per signature and then called flat.

    Calling a `tf.function` costs more Python time than a small step takes to compute; calling its concrete function
    with flat tensors costs a third of that.

    Args:
        function: what to compile.
        jit_compile, eager: how it is to run.
        change: given each concrete function and its ways back, returns the one to call instead.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        jit_compile: bool = False,
        eager: bool = False,
        change: Callable[[Any, list[graph_seams.Span]], Any] | None = None,
    ) -> None:
        self.python = function
        self.change = change
        self.eager = eager
        self._jit_compile = jit_compile
        self.changes = 0  # of `functions`
        self.forget()

    def __call__(self, *arguments: Any) -> Any:
        """The function's result."""
        if self.eager:
            return self.python(*arguments)
        flat = graph_seams.flat_tensors(arguments)
        function = self.concrete(arguments, flat)
        if self.change is None:
            return graph_seams.call_flat(function, flat)
        with graph_seams.calling_with(self._options):
            return graph_seams.call_flat(function, flat)

    def forget(self) -> None:
        """Trace anew from now on: what was traced, and the constants that it holds on the device, can go."""
        plain = tf.autograph.experimental.do_not_convert(self.python)
        self._traced = tf.function(plain, reduce_retracing=True, jit_compile=self._jit_compile)
        self._concrete: dict[tuple[Any, ...], Any] = {}
        self._changed: dict[int, tuple[Any, Any]] = {}  # what was traced, and what was made of it
        self.functions: dict[int, Any] = {}  # the concrete functions made so far
        self._options = None if self.change is None else graph_seams.steady_options()
        self.changes += 1

    def most_per_sample(self) -> int | None:
        """What one more sample takes at most, in what was traced last; None where that cannot be told."""
        function = next(reversed(self.functions.values()), None)
        return None if function is None else most_per_sample(function.graph)

    def most_alive(self, data: Any, samples: int) -> int | None:
        """What a batch of so many samples takes at most, in what was traced last; None where that cannot be told."""
        function = next(reversed(self.functions.values()), None)
        sides = [int(size) for leaf in graph_seams.flat_tensors(data) for size in leaf.shape[1:]]
        return None if function is None else most_alive(function.graph, samples, max(sides, default=1))

    def concrete(self, arguments: tuple[Any, ...], flat: list[Any] | None = None, like: Any = None) -> Any:
        """The concrete function for these arguments; traced, where it must be, for what they are `like`.

        The shapes that a function is traced for decide how TensorFlow optimises it: where Keras would trace for an
        unknown batch size, so must we, or the last bit of a result may differ.
        """
        if flat is None:
            flat = graph_seams.flat_tensors(arguments)
        key = tuple([graph_seams.signature(leaf) for leaf in flat])
        found = self._concrete.get(key)
        if found is None:
            given = arguments if like is None else like
            if self.change is None:
                found = self._traced.get_concrete_function(*given)
            else:
                with graph_seams.watched_gradients() as ways_back:
                    plain = self._traced.get_concrete_function(*given)
                # Traced for any batch size, it is there already when a batch of another size comes.
                if id(plain) not in self._changed:
                    self._changed[id(plain)] = plain, self.change(plain, ways_back)
                found = self._changed[id(plain)][1]
            self._concrete[key] = found
            self.functions[id(found)] = found
            self.changes += 1
        return found


def any_batch(data: Any) -> Any:
    """What slices of any size are like: traced once for all of them."""

    def relaxed(leaf: Any) -> Any:
        found = graph_seams.relaxed(tf.type_spec_from_value(leaf))
        return leaf if found is None else found

    return tf.nest.map_structure(lambda leaf: None if leaf is None else relaxed(leaf), data)
