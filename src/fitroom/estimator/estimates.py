"""What was measured, for whoever asks: a Footprint that knows every batch size."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any

from fitroom.core import Budget
from fitroom.core.footprint import Footprint
from fitroom.errors import UsageError
from fitroom.estimator.footprints import Footprints, Kind
from fitroom.units import parse_bytes

_MOST = 1 << 20  # the largest batch that is looked for


class Estimate(Footprint):
    """A Footprint that knows every batch size. As JSON it is a plain Footprint.

    Example:
        >>> found = fitroom.estimate(model, batch_size=64)
        >>> found.peak, found.at(128).peak, found.max_batch("8GiB")
    """

    _source: Footprints

    @classmethod
    def of(cls, source: Footprints, kind: Kind, batch: int) -> Estimate:
        """The estimate at one size."""
        plain = source.at(kind, batch)
        found = cls(**{field.name: getattr(plain, field.name) for field in dataclasses.fields(plain)})
        object.__setattr__(found, "_source", source)
        return found

    def at(self, batch: int) -> Estimate:
        """The same at another batch size; nothing runs for it."""
        return Estimate.of(self._source, self.kind, size_of(batch))

    def max_batch(self, budget: int | str | Budget) -> int:
        """The largest batch that fits the budget; 0 where none does, a million where it does not end."""
        return self._source.largest(self.kind, _bytes(budget), _MOST)

    def fits(self, budget: int | str | Budget) -> bool:
        """Whether the peak is within the budget with a little to spare, and every request finds a place there.

        It can run out with memory to spare: what is free need not be in one piece.
        """
        return self._source.fits(self.kind, self.batch_size, _bytes(budget))

    def sliced(self, slices: int) -> Footprint:
        """The same batch in so many slices, by arithmetic; exactly measured it is with `plan`."""
        return self._source.sliced(self.batch_size, slices)

    def fitting_slice(self, budget: int | str | Budget) -> int:
        """The largest slice of the batch whose worst case is within the budget; 0 where not even one sample is."""
        return self._source.fitting_slice(self.batch_size, _bytes(budget))

    def seconds(self, batch: int) -> float | None:
        """How long a step takes where it was measured; None where it was only traced."""
        return self._source.time(batch)

    @property
    def on_gpu(self) -> Estimate:
        """The same on a GPU, without what a CPU's kernels take for themselves; its band is wider."""
        return Estimate.of(self._source.on_gpu(), self.kind, self.batch_size)

    @property
    def evaluation(self) -> Estimate:
        """What `evaluate` needs at this batch size; measured in a process of its own when it is first asked for."""
        return self._of_kind("evaluation")

    @property
    def prediction(self) -> Estimate:
        """What `predict` needs at this batch size; measured together with that."""
        return self._of_kind("prediction")

    @property
    def is_compiled(self) -> bool:
        """Whether XLA compiles the steps."""
        return self._source.is_compiled

    def with_note(self, note: str) -> Estimate:
        """The same, with something more to be said of it."""
        source = dataclasses.replace(self._source, notes=(*self._source.notes, note), _found={})
        return Estimate.of(source, self.kind, self.batch_size)

    def _of_kind(self, kind: Kind) -> Estimate:
        source = self._source.with_others() if kind in self._source.missing else self._source
        if kind in source.missing:
            raise UsageError(f"There is no {kind} of this model", received=source.missing[kind][:300])
        return Estimate.of(source, kind, self.batch_size)

    @classmethod
    def from_json(cls, text: str) -> Footprint:  # type: ignore[override]  # the other sizes are not in it
        """The Footprint that `text` holds."""
        return Footprint.from_json(text)

    def to_json(self) -> str:
        """One line of JSON: a Footprint at this size, which knows no other."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(Footprint)}
        return Footprint(**values).to_json()


def size_of(batch: Any) -> int:
    """A batch size that was given.

    Raises:
        UsageError: if it is none.
    """
    try:
        size = 0 if isinstance(batch, bool) else operator.index(batch)
    except TypeError:
        size = 0
    if size < 1:
        raise UsageError("A batch has at least one sample", received=repr(batch), expected="a whole number from 1 up")
    return size


def _bytes(budget: int | str | Budget) -> int:
    if isinstance(budget, Budget):
        return budget.bytes
    return parse_bytes(budget if isinstance(budget, str) else operator.index(budget))
