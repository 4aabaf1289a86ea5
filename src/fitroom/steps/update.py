"""The optimizer's own `apply`, once per batch, all or nothing, at no more memory than plain Keras takes.

Plain Keras applies each gradient as soon as the backward pass gives it. Here all of them are there first, so the
update is made in units, the most demanding first, each gradient let go as it is used up:

    large variable     one at a time, its temporaries one after the other; after `tighten`, some rows at a time
    the small ones     together, computed first and then put in place: that part cannot fail half-way
    anything else      optimizers that look at all variables at once (global clipping, averages, loss scaling, own
                       accumulation) and strategies: the whole of `apply` in one unit

What a unit is about to change is kept until the last unit is through (`Keeper`), and put back where one fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from fitroom.steps import optimizer_seams
from fitroom.steps.compiled import Compiled
from fitroom.steps.state import State, bytes_of, native
from fitroom.units import MIB

LARGE = 4 * MIB
ROWS = MIB // 2  # how much of a large variable is updated at a time where memory is short
KEEP_ON_DEVICE = 16 * MIB


class Update:
    """Applies gradients to the variables that they belong to. A failed call leaves everything as it was."""

    def __init__(
        self, optimizer: Any, variables: list[Any], strategy: Any, *, jit_compile: bool = False, eager: bool = False
    ) -> None:
        self.optimizer = optimizer
        self.variables = variables
        self._units: list[_Unit] | None = None
        self._options = {"jit_compile": jit_compile, "eager": eager}
        self._strategy = strategy

    @classmethod
    def of(cls, model: Any, variables: list[Any]) -> Update:
        """The update that a compiled model makes."""
        options = {"jit_compile": bool(model.jit_compile), "eager": bool(model.run_eagerly)}
        return cls(model.optimizer, variables, model.distribute_strategy, **options)

    def __call__(self, gradients: list[Any]) -> None:
        """Apply `gradients`, or raise and change nothing. They are used up either way."""
        if self._units is None:
            self._units = self._make_units(gradients)
        keeper = Keeper()
        done = False
        try:
            for unit in self._units:
                if unit is not self._units[-1] or not unit.is_atomic:
                    keeper.keep(unit.state(gradients))
                unit.run(gradients)
            done = True
        finally:
            if not done:
                keeper.put_back()

    def tighten(self) -> bool:
        """Take less memory from now on, at some cost in time. False where there is nothing left to save."""
        large = [unit for unit in self._units or [] if isinstance(unit, _Large) and unit.can_go_in_rows]
        changed = [unit for unit in large if not unit.in_rows]
        for unit in changed:
            unit.in_rows = True
        return bool(changed)

    def _make_units(self, gradients: list[Any]) -> list[_Unit]:
        places = [index for index, gradient in enumerate(gradients) if gradient is not None]
        simple = not self._options["eager"] and not self._options["jit_compile"]
        if not (simple and optimizer_seams.is_separable(self.optimizer, self._strategy)):
            return [_Whole(self.optimizer, self.variables, self._strategy, self._options)]
        optimizer_seams.warn_of_missing_gradients(self.optimizer, gradients, self.variables)
        sizes = {index: bytes_of(self.variables[index]) for index in places}
        large = sorted((index for index in places if sizes[index] >= LARGE), key=lambda index: -sizes[index])
        small = [index for index in places if sizes[index] < LARGE]
        units: list[_Unit] = [_Large(self.optimizer, self.variables, index) for index in large]
        units += [_Small(self.optimizer, self.variables, group) for group in _grouped(small, sizes)]
        if not units:
            return [_Whole(self.optimizer, self.variables, self._strategy, self._options)]
        units[-1].ticks = True
        return units


class _Unit:
    """A part of the update. `ticks`: whether it also counts the update, which the last one does."""

    is_atomic = False
    ticks = False

    def state(self, gradients: list[Any]) -> State:
        """What it is about to change."""
        raise AssertionError("every unit says what it changes")

    def run(self, gradients: list[Any]) -> None:
        """Change it."""
        raise AssertionError("every unit does something")


class _Whole(_Unit):
    """All of the optimizer's `apply`, as it is."""

    def __init__(self, optimizer: Any, variables: list[Any], strategy: Any, options: dict[str, Any]) -> None:
        self._state: State | None = None

        def apply(gradients: list[Any]) -> None:
            def on_replica(given: list[Any]) -> None:
                # A strategy's all-reduce asks each gradient for its device; an argument has none, its identity has.
                optimizer.apply([None if one is None else tf.identity(one) for one in given], variables)

            strategy.run(on_replica, args=(gradients,))

        # A program that XLA compiled writes its variables when all of it is through.
        self.is_atomic = options["jit_compile"]
        self._apply = Compiled(apply, **options)
        self._eager_state = native([*variables, *optimizer.variables]) if options["eager"] else None

    def state(self, gradients: list[Any]) -> State:
        if self._state is None:
            if self._eager_state is not None:
                self._state = State(self._eager_state)
            else:
                self._state = State(optimizer_seams.written_variables(self._apply.concrete((gradients,))))
        return self._state

    def run(self, gradients: list[Any]) -> None:
        self._apply(gradients)


class _Large(_Unit):
    """One large variable and its slots, in place.

    The gradient is handed over through a mailbox, a variable that is emptied as soon as it has been read: so it is
    freed when its last use is over, not when the function returns.
    """

    def __init__(self, optimizer: Any, variables: list[Any], index: int) -> None:
        self.index = index
        variable = variables[index]
        box = tf.Variable(tf.zeros([0], variable.dtype), shape=tf.TensorShape(None), trainable=False)
        self._box = box

        def dense() -> None:
            gradient = tf.ensure_shape(box.read_value(), variable.shape)
            with tf.control_dependencies([gradient]):
                box.assign(tf.zeros([0], variable.dtype))
            optimizer_seams.apply_in_sequence(optimizer, gradient, variable, ticks=self.ticks)

        def sparse(gradient: Any) -> None:
            optimizer_seams.apply_in_sequence(optimizer, gradient, variable, ticks=self.ticks)

        def rows(gradient: Any) -> None:
            count = max(1, ROWS * int(variable.shape[0]) // bytes_of(variable))
            optimizer_seams.apply_in_rows(optimizer, gradient, variable, count, ticks=self.ticks)

        self.in_rows = False
        self.can_go_in_rows = optimizer_seams.can_apply_in_rows(optimizer, variable)
        self._dense, self._sparse, self._rows = Compiled(dense), Compiled(sparse), Compiled(rows)
        self._state = State(native([variable, *optimizer_seams.slots(optimizer, variable), optimizer.iterations]))

    def state(self, gradients: list[Any]) -> State:
        return self._state

    def run(self, gradients: list[Any]) -> None:
        gradient, gradients[self.index] = gradients[self.index], None
        if self.in_rows or isinstance(gradient, tf.IndexedSlices):
            (self._rows if self.in_rows else self._sparse)(gradient)
            return
        tf.raw_ops.AssignVariableOp(resource=self._box.handle, value=gradient, validate_shape=False)
        del gradient
        self._dense()


class _Small(_Unit):
    """Several small variables: new values first, all of them, and only then put in place."""

    is_atomic = True

    def __init__(self, optimizer: Any, variables: list[Any], places: list[int]) -> None:
        self.places = places
        own = [variables[index] for index in places]
        self._apply = Compiled(lambda given: optimizer_seams.apply_then_commit(optimizer, given, own, ticks=self.ticks))
        slots = [slot for variable in own for slot in optimizer_seams.slots(optimizer, variable)]
        self._state = State(native([*own, *slots, optimizer.iterations]))

    def state(self, gradients: list[Any]) -> State:
        return self._state

    def run(self, gradients: list[Any]) -> None:
        given = [gradients[index] for index in self.places]
        for index in self.places:
            gradients[index] = None
        self._apply(given)


class Keeper:
    """Values as they were, until it is sure that they are not needed any more.

    A few are kept on the device, where that costs nothing until they change; the rest goes to the host's memory, so
    that keeping does not need what is short.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[State, list[Any]]] = []
        self._on_device = 0

    def keep(self, state: State) -> None:
        """Remember what `state` is now."""
        values = state.read()
        if self._on_device + state.bytes > KEEP_ON_DEVICE:
            # A copy: the array that TensorFlow gives shares the variable's memory.
            values = [np.array(value.numpy(), copy=True) for value in values]
        else:
            self._on_device += state.bytes
        self._kept.append((state, values))

    def put_back(self) -> None:
        """Have everything be as it was, the last change first."""
        for state, values in reversed(self._kept):
            if values and isinstance(values[0], np.ndarray):
                state.refill(values)
            else:
                state.write(values)


def _grouped(places: Sequence[int], sizes: dict[int, int]) -> list[list[int]]:
    """Small variables in groups of at most `KEEP_ON_DEVICE`, in their own order."""
    groups: list[list[int]] = []
    room = 0
    for index in places:
        if sizes[index] > room:
            groups.append([])
            room = KEEP_ON_DEVICE
        groups[-1].append(index)
        room -= sizes[index]
    return groups
