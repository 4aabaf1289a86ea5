"""The way back to a place in a training's data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fitroom.data import keras_seams
from fitroom.data.keras_seams import Steps
from fitroom.data.passing import Passing, checksum


class DataEnded(Exception):
    """There is less data than there was."""


class Epochs:
    """A training's data, epoch by epoch, as Keras goes through it.

    Epochs that are over are gone through again as Keras did: its iterators are made in the same order, which decides
    what a seeded shuffle gives. Batches are taken out again only where that matters: where Python code makes them,
    which may keep a state of its own, or where an epoch goes on where the one before ended.

    Args:
        iterator: Keras' own, over epochs.
        executes: how many batches Keras takes at once.

    Attributes:
        calls_python: whether Python code makes the batches.
        can_jump: whether epochs can be left out without a look at their batches.
        per_epoch: how many batches an epoch has; None where that is not known beforehand.
        taken: how many batches were taken out again.
        print: a checksum of what was taken last, where that was asked for.
        kept: a batch, where one was to be kept.
    """

    def __init__(self, iterator: Any, executes: int) -> None:
        self._iterator = iterator
        self._executes = executes
        self.calls_python = keras_seams.calls_python(iterator)
        self.can_jump = not self.calls_python and keras_seams.can_jump(iterator)
        self.per_epoch = keras_seams.batches_per_epoch(iterator)
        self.taken = 0
        self.print: int | None = None
        self.kept: Passing | None = None

    @property
    def may_end_early(self) -> bool:
        """Whether only the next batch shows if there is one."""
        return keras_seams.may_end_early(self._iterator)

    def leave(self) -> None:
        """Have Keras' iterator forget who follows it: they hold each other, and all data, until garbage is collected.

        TensorFlow's own threads go with it. The longer they live, the longer it may take to end them: up to a minute.
        """
        self._iterator.follower = None

    def skip(self, plain: Callable[[], Steps], count: int | None = None, *, keep: bool = False) -> None:
        """Go through an epoch that is over, or through its first `count` batches; `keep` one of them, if asked to."""
        with keras_seams.ending_quietly(self._iterator):
            for first, _, batches in plain():
                if count is not None and first >= count:
                    break
                if not self.can_jump or (keep and self.kept is None):
                    batch = self._take(batches)
                    self.kept = Passing(batches, batch, count=1) if keep else None

    def skip_to(self, steps: Steps, count: int) -> tuple[int, int, Any] | None:
        """Go through the first `count` batches of an epoch; returns the step that follows, None where none does.

        Raises:
            DataEnded: if there are not as many.
        """
        for first, last, batches in steps:
            if first >= count:
                return first, last, batches
            try:
                self._take(batches, note=last + 1 >= count)
            except StopIteration:
                raise DataEnded from None
        return None

    def _take(self, batches: Any, *, note: bool = False) -> Any:
        """The last of the batches that Keras takes at once."""
        self.print = 0 if note else None
        batch = None
        for number in range(self._executes):
            try:
                batch = next(batches)
            except StopIteration:
                if number == 0:
                    raise
                break
            self.taken += 1
            self.print = checksum(batch, self.print) if self.print is not None else None
        return batch
