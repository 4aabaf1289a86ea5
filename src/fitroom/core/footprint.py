"""What a training step needs at its peak, by part and by layer."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from fitroom.core import footprint_table
from fitroom.core.noun import Noun
from fitroom.units import format_bytes

TYPE_CHECKING = False

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True)
class Parts:
    """Bytes at the peak, by what they hold. They sum to the peak.

    Attributes:
        weights: the model's variables.
        optimizer: the optimizer's slots.
        accumulators: what slices add their gradients up in.
        activations: what the way forth made, and is still needed.
        gradients: what the way back made, of weights and of activations.
        workspace: what kernels take for themselves while they run, and constants.
        data: the batch.
        exchange: what replicas add their gradients up in.
        slack: what the allocator adds, because it rounds up and hands out whole chunks.
    """

    weights: int = 0
    optimizer: int = 0
    accumulators: int = 0
    activations: int = 0
    gradients: int = 0
    workspace: int = 0
    data: int = 0
    exchange: int = 0
    slack: int = 0

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


@dataclass(frozen=True, repr=False)
class Footprint(Noun):
    """Bytes at the peak of one step at one batch size.

    Attributes:
        batch_size: samples in the step.
        parts: the peak, by what the bytes hold.
        layers: who holds how much of it, largest first.
        how: ``traced`` from the graph, or ``measured`` on a real allocator.
        band: the honest relative error: the true peak is expected within ``peak * (1 ± band)``.
        kind: what kind of step it is.
        phase: where in the step the peak is; empty where that is not known.
        plan: the short form of the plan that it is with.
        notes: what the figures rest on, in words, where that is not plain.
        replicas: the devices that share the batch: each takes this much, the one with the largest share. None where
            there is one device.
    """

    batch_size: int
    parts: Parts
    how: Literal["traced", "measured"]
    band: float
    layers: tuple[LayerBytes, ...] = ()
    kind: Literal["training", "evaluation", "prediction"] = "training"
    phase: Literal["", "forward", "backward", "update"] = ""
    plan: str = "plain"
    notes: tuple[str, ...] = ()
    replicas: tuple[str, ...] = ()

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

    def __rich__(self) -> Group:
        return footprint_table.rendered(self)

    def __repr__(self) -> str:
        return footprint_table.text(self)

    def __str__(self) -> str:
        return f"{format_bytes(self.peak)} ± {self.band:.0%} at batch {self.batch_size} ({self.how})"
