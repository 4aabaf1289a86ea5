"""The optimizer's own `apply`, once per batch, all or nothing, at no more memory than plain Keras takes.

Plain Keras applies each gradient as soon as the backward pass gives it. Here all of them are there first, so the
update is made in units, the most demanding first, each gradient let go as it is used up:

    large variable     some rows at a time, each time computed first and then put in place; where an optimizer cannot
                       do that, as a whole, its temporaries one after the other
    the small ones     together, computed first and then put in place: that part cannot fail half-way
    anything else      optimizers that look at all variables at once (global clipping, averages, loss scaling, own
                       accumulation): the whole of `apply` in one unit

Under a strategy the replicas' gradients are added up first, and every replica's variables are units of their own.

Where weights are few, what is about to change is kept until the last unit is through (`Keeper`), and put back where
one fails. Where they are many, keeping them takes as long as the rest of the step. There every unit knows how far it
is: an update that has begun goes on after a failure, from the rows at which it failed, and one that has not begun has
changed nothing. Only what is applied in one unit is kept whatever it takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from fitroom import oom
from fitroom.errors import HalfUpdated
from fitroom.steps import optimizer_seams, replicas
from fitroom.steps.compiled import Compiled
from fitroom.steps.state import State, bytes_of, native
from fitroom.units import MIB

LARGE = 4 * MIB
# How much of a large variable is updated at a time. On a CPU, what fits its caches: 1.1 to 1.3 of the time of all at
# once, where 0.5 MiB take 2.0 and 16 MiB 2.6. On a GPU each piece costs some launches.
ROWS, ROWS_ON_GPU = 2 * MIB, 16 * MIB
FEWER_ROWS = MIB // 2  # where memory is short
KEEP_ON_DEVICE = 16 * MIB
_AT_ONCE = 64  # elements; a multiple of what any kernel takes
_TRIES = 3  # at the same rows, before an update that has begun is given up


class Update:
    """Applies gradients to the variables that they belong to. A failed call leaves everything as it was."""

    def __init__(
        self, optimizer: Any, variables: list[Any], strategy: Any, *, jit_compile: bool = False, eager: bool = False
    ) -> None:
        self.optimizer = optimizer
        self.variables = variables
        self._survived: list[oom.Exhaustion] = []
        self._units: list[_Unit] | None = None
        self._options = {"jit_compile": jit_compile, "eager": eager}
        self._strategy = strategy
        self._added_up: Compiled | None = None
        self._goes_on = False
        self._is_tighter = False

    @classmethod
    def of(cls, model: Any, variables: list[Any]) -> Update:
        """The update that a compiled model makes."""
        options = {"jit_compile": bool(model.jit_compile), "eager": bool(model.run_eagerly)}
        return cls(model.optimizer, variables, model.distribute_strategy, **options)

    def __call__(self, gradients: list[Any]) -> None:
        """Apply `gradients`, or raise and change nothing. They are used up either way."""
        if self._units is None:
            self._units = self._make_units(gradients)
        if self._goes_on:
            shares = self._shares(gradients)
            for number, unit in enumerate(self._units):
                self._go_on(unit, shares[unit.replica], has_begun=number > 0)
        else:
            self._all_or_nothing(self._units, gradients)

    def _go_on(self, unit: _Unit, gradients: list[Any], *, has_begun: bool) -> None:
        """Carry a unit through: once anything has changed, there is no way back."""
        tries, before = 0, 0
        while True:
            try:
                unit.run(gradients)
                return
            except Exception as error:
                found, now = oom.from_exception(error), unit.progress()
                if not has_begun and not now:
                    raise
                tries = tries + 1 if now == before else 1
                if found is None or not found.is_memory or tries > _TRIES:
                    raise HalfUpdated(
                        "An update failed half-way, and cannot be undone: some weights have changed and some have not",
                        received=f"{type(error).__name__}: {error}"[:400],
                        hint="go on from your last checkpoint; fitroom run keeps some by itself",
                    ) from None
            before = now
            self._survived.append(found)
            self._is_tighter |= unit.tighten()

    def _shares(self, gradients: list[Any]) -> list[list[Any]]:
        """What every replica's variables are updated with. The gradients are used up."""
        if self._added_up is None:
            return [gradients]
        added_up = self._added_up(gradients)
        gradients.clear()
        return replicas.parts(added_up, self._strategy.num_replicas_in_sync)

    def _all_or_nothing(self, units: Sequence[_Unit], gradients: list[Any]) -> None:
        keeper = Keeper()
        done = False
        try:
            for unit in units:
                if unit is not units[-1] or not unit.is_atomic:
                    keeper.keep(unit.state(gradients))
                unit.run(gradients)
            done = True
        finally:
            if not done:
                keeper.put_back()

    def take_survived(self) -> list[oom.Exhaustion]:
        """The failures that it got over by itself, since this was last asked."""
        found, self._survived = self._survived, []
        return found

    def tighten(self) -> bool:
        """Take less memory from now on, at some cost in time. False where nothing was left to save."""
        tightened, self._is_tighter = self._is_tighter, False
        return sum(unit.tighten() for unit in self._units or []) > 0 or tightened

    def _make_units(self, gradients: list[Any]) -> list[_Unit]:
        places = [index for index, gradient in enumerate(gradients) if gradient is not None]
        simple = not self._options["eager"] and not self._options["jit_compile"]
        units: list[_Unit] = []
        if simple and optimizer_seams.is_separable(self.optimizer, self._strategy):
            units = self._separate(places)
            is_much = sum(unit.state(gradients).bytes for unit in units) > KEEP_ON_DEVICE
            self._goes_on = is_much and all(unit.can_go_on for unit in units)
            if self._strategy is not tf.distribute.get_strategy():
                units = units if self._goes_on else []
                self._added_up = Compiled(self._add_up) if units else None
        if not units:
            return [_Whole(self.optimizer, self.variables, self._strategy, self._options)]
        optimizer_seams.warn_of_missing_gradients(self.optimizer, gradients, self.variables)
        units[-1].ticks = True
        return units

    def _separate(self, places: list[int]) -> list[_Unit]:
        sizes = {index: bytes_of(self.variables[index]) for index in places}
        large = sorted((index for index in places if sizes[index] >= LARGE), key=lambda index: -sizes[index])
        small = [index for index in places if sizes[index] < LARGE]
        everywhere = range(self._strategy.num_replicas_in_sync)
        units = [self._large(index, replica) for index in large for replica in everywhere]
        groups = _grouped(small, sizes)
        return units + [_Small(self.optimizer, self.variables, group, one) for group in groups for one in everywhere]

    def _large(self, index: int, replica: int) -> _Unit:
        if optimizer_seams.can_apply_in_rows(self.optimizer, self.variables[index]):
            return _Rows(self.optimizer, self.variables, index, replica)
        return _Large(self.optimizer, self.variables, index)

    def _add_up(self, gradients: list[Any]) -> list[Any]:
        """Every replica's gradients as the sum of all, as Keras' own `apply` adds them up."""

        def on_replica(given: list[Any]) -> list[Any]:
            # It asks each gradient for its device; an argument has none, its identity has.
            present = [tf.identity(one) for one in given if one is not None]
            context = tf.distribute.get_replica_context()
            added_up = iter(context.all_reduce(tf.distribute.ReduceOp.SUM, present))
            return [None if one is None else next(added_up) for one in given]

        return list(self._strategy.run(on_replica, args=(gradients,)))


class _Unit:
    """A part of the update.

    Attributes:
        ticks: whether it also counts the update, which the last one does.
        is_atomic: it changes nothing where it fails.
        can_go_on: where it fails, running it again does what is left.
        replica: whose variables it changes; where it cannot go on, all replicas'.
    """

    is_atomic = False
    can_go_on = False
    ticks = False
    replica = 0

    def state(self, gradients: list[Any]) -> State:
        """What it is about to change."""
        raise AssertionError("every unit says what it changes")

    def run(self, gradients: list[Any]) -> None:
        """Change it."""
        raise AssertionError("every unit does something")

    def progress(self) -> int:
        """How far it came before it failed."""
        return 0

    def tighten(self) -> bool:
        """Take less memory from now on. False where there is nothing left to save."""
        return False


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

        self._dense, self._sparse = Compiled(dense), Compiled(sparse)
        self._state = State(native([variable, *optimizer_seams.slots(optimizer, variable), optimizer.iterations]))

    def state(self, gradients: list[Any]) -> State:
        return self._state

    def run(self, gradients: list[Any]) -> None:
        gradient, gradients[self.index] = gradients[self.index], None
        if isinstance(gradient, tf.IndexedSlices):
            self._sparse(gradient)
            return
        tf.raw_ops.AssignVariableOp(resource=self._box.handle, value=gradient, validate_shape=False)
        del gradient
        self._dense()


class _Rows(_Unit):
    """One large variable and its slots on one replica, some rows at a time."""

    can_go_on = True

    def __init__(self, optimizer: Any, variables: list[Any], index: int, replica: int) -> None:
        self.index, self.replica = index, replica
        variable = variables[index]
        device = native([variable])[replica].device
        with tf.device("CPU"):
            self._done = tf.Variable(0, trainable=False)
        self._row = max(1, bytes_of(variable) // int(variable.shape[0]))
        elements = int(np.prod(variable.shape[1:]))
        # Kernels take several elements at once, and may round what is left over otherwise (a reciprocal root): cut
        # where a whole number of them ends, so that the same elements are left over as without cuts.
        self._together = _AT_ONCE // math.gcd(_AT_ONCE, elements)
        self._bytes = ROWS_ON_GPU if "GPU" in device else ROWS

        def apply(gradient: Any, rows: Any) -> None:
            with tf.device(device):
                optimizer_seams.apply_in_rows(
                    optimizer, gradient, variable, rows, self._done, ticks=self.ticks, replica=replica
                )

        self._apply = Compiled(apply)
        own = [variable, *optimizer_seams.slots(optimizer, variable), optimizer.iterations]
        self._state = State([*native(own), self._done])

    def state(self, gradients: list[Any]) -> State:
        return self._state

    def run(self, gradients: list[Any]) -> None:
        times = max(1, self._bytes // self._row // self._together)
        self._apply(gradients[self.index], tf.constant(times * self._together))
        gradients[self.index] = None

    def progress(self) -> int:
        return int(self._done)

    def tighten(self) -> bool:
        is_changed = self._bytes > FEWER_ROWS
        self._bytes = min(self._bytes, FEWER_ROWS)
        return is_changed


class _Small(_Unit):
    """Several small variables on one replica: new values first, all of them, and only then put in place."""

    is_atomic = True
    can_go_on = True

    def __init__(self, optimizer: Any, variables: list[Any], places: list[int], replica: int) -> None:
        self.places, self.replica = places, replica
        own = [variables[index] for index in places]
        device = native(own[:1])[replica].device

        def apply(gradients: list[Any]) -> None:
            with tf.device(device):
                optimizer_seams.apply_then_commit(optimizer, gradients, own, ticks=self.ticks, replica=replica)

        self._apply = Compiled(apply)
        slots = [slot for variable in own for slot in optimizer_seams.slots(optimizer, variable)]
        self._state = State(native([*own, *slots, optimizer.iterations]))

    def state(self, gradients: list[Any]) -> State:
        return self._state

    def run(self, gradients: list[Any]) -> None:
        self._apply([gradients[index] for index in self.places])
        for index in self.places:
            gradients[index] = None


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
