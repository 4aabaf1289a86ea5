"""How much memory a training may use, and where."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from fitroom.core.noun import Noun
from fitroom.units import MIB, format_bytes

DeviceKind = Literal["gpu", "pocket", "host"]


@dataclass(frozen=True)
class Budget(Noun):
    """The allocator's limit on one device, in whole MiB, without the CUDA context.

    Attributes:
        mib: the limit, rounded down to whole MiB.
        device: the device's name as TensorFlow says it, such as ``GPU:0`` or ``CPU:0``.
        kind: ``gpu``; ``pocket``: the GPU's allocator on the CPU; ``host``: plain host memory, only watched.
        enforced: whether the allocator itself keeps to it. If not, it is planned for and the run says so.
        origin: where the number comes from: ``asked`` for by the user, or what is ``free`` now.
    """

    mib: int
    device: str
    kind: DeviceKind
    enforced: bool
    origin: Literal["asked", "free"]

    def __post_init__(self) -> None:
        if self.mib < 1:
            raise ValueError(f"a budget is at least 1 MiB, not {self.mib}")

    @property
    def bytes(self) -> int:
        """The limit in bytes."""
        return self.mib * MIB

    def per_replica(self, replicas: int) -> Budget:
        """What each of several replicas has: on GPUs the limit is each one's, logical CPUs share one arena."""
        return self if self.kind == "gpu" else replace(self, mib=max(self.mib // replicas, 1))

    def __str__(self) -> str:
        rule = "enforced" if self.enforced else "not enforced"
        return f"{format_bytes(self.bytes)} on {self.device} ({self.kind}, {self.origin}, {rule})"
