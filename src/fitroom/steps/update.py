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

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from fitroom import oom
from fitroom.errors import HalfUpdated
from fitroom.steps import optimizer_seams, replicas
from fitroom.steps.compiled import Compiled
from fitroom.steps.state import State, bytes_of, native
from fitroom.steps.update_units import Large, Rows, Small, Tick, Unit, Whole
from fitroom.units import MIB

LARGE = 4 * MIB
KEEP_ON_DEVICE = 16 * MIB
_TOGETHER = 4 * MIB  # of small variables at a time, where there are many
_MOST_ROWS = 16 * MIB  # the least that can be taken at a time is more: another way is better
_TRIES = 3  # at the same rows, before an update that has begun is given up


class Update:
    """Applies gradients to the variables that they belong to. A failed call leaves everything as it was."""

    def __init__(
        self, optimizer: Any, variables: list[Any], strategy: Any, *, jit_compile: bool = False, eager: bool = False
    ) -> None:
        self.optimizer = optimizer
        self.variables = variables
        self._survived: list[oom.Exhaustion] = []
        self._units: list[Unit] | None = None
        self._options = {"jit_compile": jit_compile, "eager": eager}
        self._strategy = strategy
        self._added_up: Compiled | None = None
        self._goes_on = False
        self._is_traced = False
        self._is_tighter = False
        self._was_given_up = False

    @classmethod
    def of(cls, model: Any, variables: list[Any]) -> Update:
        """The update that a compiled model makes."""
        options = {"jit_compile": bool(model.jit_compile), "eager": bool(model.run_eagerly)}
        return cls(model.optimizer, variables, model.distribute_strategy, **options)

    def __call__(self, gradients: list[Any]) -> None:
        """Apply `gradients`, or raise and change nothing. They are used up."""
        if self._units is None:
            self._units = self._make_units(gradients)
        if self._goes_on:
            self._by_parts(self._units, gradients)
        else:
            self._all_or_nothing(self._units, gradients)

    def _by_parts(self, units: Sequence[Unit], gradients: list[Any]) -> None:
        if self._was_given_up:
            for unit in units:
                unit.reset()
            self._was_given_up = False
        shares = self._shares(gradients)
        if not self._is_traced:  # now: what fails here has changed nothing
            for unit in units:
                unit.trace(shares[unit.replica])
            self._is_traced = True
        if len(shares) > 1:  # on a second device, once the first is written, it would be too late
            for replica in range(len(shares)):
                max((unit for unit in units if unit.replica == replica), key=lambda unit: unit.need()).ask_for_room()
        for number, unit in enumerate(units):
            self._go_on(unit, shares[unit.replica], has_begun=number > 0)

    def _go_on(self, unit: Unit, gradients: list[Any], *, has_begun: bool) -> None:
        """Carry a unit through: once anything has changed, there is no way back. Where nothing has, it raises."""
        tries, before = 0, 0
        while True:
            try:
                unit.run(gradients)
                return
            except Exception as error:
                found, now = oom.from_exception(error), unit.progress()
                unit.share_reads()
                if not has_begun and not now:
                    raise
                tries = tries + 1 if now == before else 1
                if found is None or not found.is_memory or tries > _TRIES:
                    self._was_given_up = True
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

    def _all_or_nothing(self, units: Sequence[Unit], gradients: list[Any]) -> None:
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
                for unit in units:
                    unit.reset()

    def take_survived(self) -> list[oom.Exhaustion]:
        """The failures that it got over by itself, since this was last asked."""
        found, self._survived = self._survived, []
        return found

    def tighten(self) -> bool:
        """Take less memory from now on, at some cost in time. False where nothing was left to save."""
        tightened, self._is_tighter = self._is_tighter, False
        return sum(unit.tighten() for unit in self._units or []) > 0 or tightened

    def _make_units(self, gradients: list[Any]) -> list[Unit]:
        places = [index for index, gradient in enumerate(gradients) if gradient is not None]
        simple = not self._options["eager"] and not self._options["jit_compile"]
        units: list[Unit] = []
        if simple and optimizer_seams.is_separable(self.optimizer, self._strategy):
            alone = self._strategy is tf.distribute.get_strategy()
            units = self._separate(places)
            is_much = sum(unit.state(gradients).bytes for unit in units) > KEEP_ON_DEVICE
            self._goes_on = is_much and all(unit.can_go_on for unit in units)
            if not alone:
                units = units if self._goes_on else []
                self._added_up = Compiled(self._add_up) if units else None
        if not units:
            return [Whole(self.optimizer, self.variables, self._strategy, self._options)]
        optimizer_seams.warn_of_missing_gradients(self.optimizer, gradients, self.variables)
        if self._goes_on:
            units.sort(key=lambda unit: -unit.need())
        if self._goes_on or isinstance(units[-1], Rows):
            units.append(Tick(self.optimizer))
        else:
            units[-1].ticks = True
        return units

    def _separate(self, places: list[int]) -> list[Unit]:
        """A unit for every part; none where a strategy has variables otherwise than one on each replica."""
        count = self._strategy.num_replicas_in_sync
        if any(len(native([self.variables[index]])) != count for index in places):
            return []
        sizes = {index: bytes_of(self.variables[index]) for index in places}
        large = sorted((index for index in places if sizes[index] >= LARGE), key=lambda index: -sizes[index])
        small = [index for index in places if sizes[index] < LARGE]
        is_much = sum(sizes.values()) > KEEP_ON_DEVICE
        units = [self._large(index, replica) for index in large for replica in range(count)]
        groups = _grouped(small, sizes, min(_TOGETHER, KEEP_ON_DEVICE) if is_much else KEEP_ON_DEVICE)
        return units + [
            Small(self.optimizer, self.variables, group, replica) for group in groups for replica in range(count)
        ]

    def _large(self, index: int, replica: int) -> Unit:
        variable = self.variables[index]
        if optimizer_seams.can_apply_in_rows(self.optimizer, variable, self._strategy.num_replicas_in_sync):
            rows = Rows(self.optimizer, self.variables, index, replica)
            if rows.least <= _MOST_ROWS:
                return rows
        return Large(self.optimizer, self.variables, index)

    def _add_up(self, gradients: list[Any]) -> list[Any]:
        """Every replica's gradients as the sum of all, as Keras' own `apply` adds them up."""

        def on_replica(given: list[Any]) -> list[Any]:
            # It asks each gradient for its device; an argument has none, its identity has.
            present = [tf.identity(one) for one in given if one is not None]
            context = tf.distribute.get_replica_context()
            added_up = iter(context.all_reduce(tf.distribute.ReduceOp.SUM, present))
            return [None if one is None else next(added_up) for one in given]

        return list(self._strategy.run(on_replica, args=(gradients,)))


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


def _grouped(places: Sequence[int], sizes: dict[int, int], most: int) -> list[list[int]]:
    """Small variables in groups of at most so many bytes, in their own order."""
    groups: list[list[int]] = []
    room = 0
    for index in places:
        if sizes[index] > room:
            groups.append([])
            room = most
        groups[-1].append(index)
        room -= sizes[index]
    return groups
