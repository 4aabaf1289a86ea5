"""What a training step needs at its peak, by part and by layer."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from fitroom.core.noun import Noun
from fitroom.units import format_bytes


@dataclass(frozen=True)
class Parts:
    """Bytes at the peak, by what they hold. They sum to the peak."""

    weights: int = 0
    optimizer: int = 0
    gradients: int = 0
    activations: int = 0
    workspace: int = 0
    data: int = 0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if getattr(self, field.name) < 0:
                raise ValueError(f"{field.name} cannot be negative: {getattr(self, field.name)}")

    @property
    def total(self) -> int:
        """The sum of all parts."""
        return sum(getattr(self, field.name) for field in dataclasses.fields(self))


@dataclass(frozen=True)
class LayerBytes:
    """What one layer holds at the peak."""

    name: str
    bytes: int


@dataclass(frozen=True)
class Footprint(Noun):
    """Bytes at the peak of one step at one batch size.

    Attributes:
        batch_size: samples in the step.
        parts: the peak, by what the bytes hold.
        layers: who holds how much of it, largest first.
        how: ``traced`` from the graph, or ``measured`` on a real allocator.
        band: the honest relative error: the true peak is expected within ``peak * (1 ± band)``.
    """

    batch_size: int
    parts: Parts
    how: Literal["traced", "measured"]
    band: float
    layers: tuple[LayerBytes, ...] = ()

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"a batch has at least one sample, not {self.batch_size}")
        if not 0 <= self.band <= 1:
            raise ValueError(f"the band is a share between 0 and 1, not {self.band}")

    @property
    def peak(self) -> int:
        """Bytes in use at the peak."""
        return self.parts.total

    @property
    def worst(self) -> int:
        """The upper end of the error band: what a plan must reckon with."""
        return round(self.peak * (1 + self.band))

    def __str__(self) -> str:
        return f"{format_bytes(self.peak)} ± {self.band:.0%} at batch {self.batch_size} ({self.how})"
