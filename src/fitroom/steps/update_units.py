"""The parts that an update is made in: some rows of a large variable, several small ones, everything at once.

Gradients come in, variables and their slots change. A unit that fails has changed nothing, or knows how far it came.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tensorflow as tf

from fitroom.steps import optimizer_seams
from fitroom.steps.compiled import Compiled
from fitroom.steps.state import State, bytes_of, native
from fitroom.units import MIB

# How much of a large variable is updated at a time. On a CPU, what fits its caches: 1.1 to 1.3 of the time of all at
# once, where 0.5 MiB take 2.0 and 16 MiB 2.6. On a GPU each piece costs some launches.
ROWS, ROWS_ON_GPU = 2 * MIB, 16 * MIB
FEWER_ROWS = MIB // 2  # where memory is short
_IN_ROWS, _AT_A_TIME = 8, 4  # temporaries, times what is updated: 6.7 and 3.0 were measured with Adam
_AT_ONCE = 64  # elements; a multiple of what any kernel takes


class Unit:
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

    def need(self) -> int:
        """About how much it takes for temporaries, where it can go on."""
        return 0

    def trace(self, gradients: list[Any]) -> None:
        """Make ready all that it will need but the memory."""

    def ask_for_room(self) -> None:
        """Raise where there is no room for what it needs."""

    def progress(self) -> int:
        """How far it came before it failed."""
        return 0

    def reset(self) -> None:
        """Begin anew, whatever was done."""

    def share_reads(self) -> None:
        """After a failure: leave nothing that would make reading the variables dearer."""

    def tighten(self) -> bool:
        """Take less memory from now on. False where there is nothing left to save."""
        return False


class Whole(Unit):
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


class Large(Unit):
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


class Rows(Unit):
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
        self._device = device
        own = [native([one]) for one in (variable, *optimizer_seams.slots(optimizer, variable))]
        self._own = [one[replica] for one in own]
        is_one_write = optimizer_seams.is_one_write(optimizer, variable) and len(own[0]) == 1

        def apply(gradient: Any, rows: Any) -> None:
            with tf.device(device):
                if isinstance(gradient, tf.IndexedSlices) and is_one_write:  # some rows only: all others stay
                    optimizer_seams.apply_in_sequence(optimizer, gradient, variable, ticks=False)
                else:
                    optimizer_seams.apply_in_rows(optimizer, gradient, variable, rows, self._done, replica)

        self._apply = Compiled(apply)
        self._state = State([*self._own, self._done])

    @property
    def least(self) -> int:
        """The bytes that are updated at a time at the least."""
        return self._row * self._together

    def need(self) -> int:
        return _IN_ROWS * self._row * self._rows()

    def _rows(self) -> int:
        return max(1, self._bytes // self.least) * self._together

    def state(self, gradients: list[Any]) -> State:
        return self._state

    def trace(self, gradients: list[Any]) -> None:
        self._apply.concrete((gradients[self.index], tf.constant(self._rows())))

    def run(self, gradients: list[Any]) -> None:
        self._apply(gradients[self.index], tf.constant(self._rows()))
        gradients[self.index] = None

    def ask_for_room(self) -> None:
        _ask_for(self.need(), self._device)

    def progress(self) -> int:
        return int(self._done)

    def reset(self) -> None:
        self._done.assign(0)

    def share_reads(self) -> None:
        optimizer_seams.share_reads([one.handle for one in self._own])

    def tighten(self) -> bool:
        before, self._bytes = self._rows(), min(self._bytes, FEWER_ROWS)
        return self._rows() < before


class Small(Unit):
    """Several small variables on one replica: new values first, all of them, and only then put in place."""

    is_atomic = True
    can_go_on = True

    def __init__(self, optimizer: Any, variables: list[Any], places: list[int], replica: int) -> None:
        self.places, self.replica = places, replica
        own = [variables[index] for index in places]
        self._bytes = sum(map(bytes_of, own))
        self._device = device = native(own[:1])[replica].device

        def apply(gradients: list[Any]) -> None:
            with tf.device(device):
                optimizer_seams.apply_then_commit(optimizer, gradients, own, ticks=self.ticks, replica=replica)

        self._apply = Compiled(apply)
        self._parts: list[Small] = []
        self._done = 0  # of them
        self._of = optimizer, variables
        slots = [slot for variable in own for slot in optimizer_seams.slots(optimizer, variable)]
        self._state = State(native([*own, *slots, optimizer.iterations]))

    def state(self, gradients: list[Any]) -> State:
        return self._state

    def run(self, gradients: list[Any]) -> None:
        if self._parts:
            while self._done < len(self._parts):
                self._parts[self._done].run(gradients)
                self._done += 1
            self._done = 0
            return
        self._apply([gradients[index] for index in self.places])
        for index in self.places:
            gradients[index] = None

    def trace(self, gradients: list[Any]) -> None:
        self._apply.concrete(([gradients[index] for index in self.places],))

    def ask_for_room(self) -> None:
        _ask_for(self.need(), self._device)

    def tighten(self) -> bool:
        """One variable at a time, from now on."""
        if self._parts or len(self.places) == 1 or self.ticks:
            return False
        self._parts = [Small(*self._of, [index], self.replica) for index in self.places]
        return True

    def need(self) -> int:
        return max(part.need() for part in self._parts) if self._parts else _AT_A_TIME * self._bytes

    def progress(self) -> int:
        return self._done

    def reset(self) -> None:
        self._done = 0


class Tick(Unit):
    """Counts the update, when all of it is made."""

    is_atomic = True
    can_go_on = True

    def __init__(self, optimizer: Any) -> None:
        self._tick = Compiled(lambda: optimizer_seams.tick(optimizer))
        self._state = State(native([optimizer.iterations]))

    def state(self, gradients: list[Any]) -> State:
        return self._state

    def trace(self, gradients: list[Any]) -> None:
        self._tick.concrete(())

    def run(self, gradients: list[Any]) -> None:
        self._tick()


def _ask_for(size: int, device: str) -> None:
    """Raise where a device has not so much room."""
    with tf.device(device):
        tf.raw_ops.Empty(shape=[size], dtype=tf.uint8, init=False)
