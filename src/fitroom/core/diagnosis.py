"""What ran out, why, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fitroom.core.noun import Noun
from fitroom.core.remedy import Remedy
from fitroom.core.resource import Resource


class Cause(str, Enum):
    """Why it ran out."""

    BATCH_OR_ACTIVATIONS = "batch_or_activations"
    WEIGHTS_OR_OPTIMIZER_TOO_BIG = "weights_or_optimizer_too_big"
    SINGLE_GIANT_TENSOR = "single_giant_tensor"
    FRAGMENTATION = "fragmentation"
    OTHER_PROCESS = "other_process"
    LEAK_OVER_ITERATIONS = "leak_over_iterations"
    RETRACING = "retracing"
    HOST_DATASET = "host_dataset"
    PROTO_EMBEDDED_DATA = "proto_embedded_data"
    GPU_PREALLOCATION_OR_GROWTH = "gpu_preallocation_or_growth"
    DISK_FULL = "disk_full"
    FD_LIMIT = "fd_limit"
    MESSAGE_LIMIT = "message_limit"
    INFERENCE_TOO_LARGE = "inference_too_large"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Evidence:
    """A line that a diagnosis rests on; `line` counts from 1, None where there is no file."""

    text: str
    line: int | None = None


@dataclass(frozen=True)
class Diagnosis(Noun):
    """What ran out and why, the lines that say so, the numbers in them, and the remedies, best first.

    Attributes:
        confidence: how sure the cause is, from 0 to 1.
        fragmentation: (pool - in use - largest free) / (pool - in use), from 0 to 1.
        alternatives: other causes that the evidence would allow, likeliest first.
    """

    resource: Resource
    cause: Cause
    confidence: float
    evidence: tuple[Evidence, ...] = ()
    device: str | None = None
    wanted_bytes: int | None = None
    tensor_shape: tuple[int, ...] | None = None
    dtype: str | None = None
    op: str | None = None
    layer: str | None = None
    allocator: str | None = None
    limit_bytes: int | None = None
    in_use_bytes: int | None = None
    largest_free_bytes: int | None = None
    fragmentation: float | None = None
    alternatives: tuple[Cause, ...] = ()
    remedies: tuple[Remedy, ...] = ()

    def __post_init__(self) -> None:
        for name in ("confidence", "fragmentation"):
            share = getattr(self, name)
            if share is not None and not 0 <= share <= 1:
                raise ValueError(f"{name} is a share between 0 and 1, not {share}")
