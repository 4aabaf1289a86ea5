"""What is known of one failure: the words read, and nothing concluded yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Literal

from fitroom import oom_words
from fitroom.core import Attempt, Evidence, Footprint, Resource
from fitroom.diagnosers import ops
from fitroom.diagnosers.dump import Arena
from fitroom.diagnosers.replicas import Replicas
from fitroom.units import GIB, MIB


@dataclass(frozen=True)
class Facts:
    """One failure, as its words tell it.

    Attributes:
        face: how it showed itself, as `fitroom.oom` names it; empty where nothing ran out.
        certain: whether the words leave no doubt that something ran out.
        words: the words of the failure.
        before: the words before it, since the last failure.
        times: how often the same failure came, with progress in between.
        refused: whether the card itself refused to give more, as CUDA says.
        footprint: what the step is known to need, where somebody knows.
        attempt: what a guard tried last, where it was one that failed.
        replicas: the replicas that the log tells of, wherever in it.
        misuse: the error of a strategy that was used wrongly, as `misuse.py` names it, where nothing ran out.
    """

    resource: Resource
    face: str
    certain: bool
    words: str
    before: str = ""
    times: int = 1
    device: str | None = None
    wanted: int | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    op: str | None = None
    allocator: str | None = None
    limit: int | None = None
    arena: Arena | None = None
    refused: bool = False
    evidence: tuple[Evidence, ...] = ()
    footprint: Footprint | None = None
    attempt: Attempt | None = None
    replicas: Replicas = field(default_factory=Replicas)
    misuse: str = ""

    @property
    def phase(self) -> Literal["", "forward", "backward", "update"]:
        """Where in the step it was, as far as that is known."""
        return "update" if self.attempt and self.attempt.phase == "update" else ops.phase(self.op)

    @property
    def layer(self) -> str | None:
        """The layer of the model, where the operation's name tells."""
        known = ops.layer_of(self.op, self.attempt.layers) if self.attempt else None
        return known or ops.layer(self.op)

    @property
    def on_card(self) -> bool:
        """Whether it was the memory of a GPU or TPU, or of an arena that stands for one."""
        is_arena = "bfc" in (self.allocator or "") and "host" not in (self.allocator or "")
        return self.resource in (Resource.GPU_MEMORY, Resource.TPU_MEMORY) or is_arena

    @cached_property
    def tensor_bytes(self) -> int | None:
        """Bytes of the tensor that is named; float32 where its type is not known."""
        if not self.shape:
            return self.wanted
        return prod(self.shape) * oom_words.size_of(self.dtype or "float")

    @property
    def in_use(self) -> int | None:
        """What was in use."""
        if self.arena is None and self.attempt is not None:
            return self.attempt.in_use_bytes
        return self.arena.in_use if self.arena else None

    def is_tiny(self) -> bool:
        """Whether so little was asked for that what had been there before is to blame."""
        return self.tensor_bytes is not None and self.tensor_bytes < max(MIB, (self.limit or 0) // 2000)

    def is_giant(self) -> bool:
        """Whether what was asked for is by itself too much: most of the memory there is, or of any there could be."""
        if self.tensor_bytes is None:
            return False
        if self.limit:
            return self.tensor_bytes > 0.6 * self.limit
        if self.resource is Resource.HOST_MEMORY:
            return self.tensor_bytes > 16 * GIB
        return self.tensor_bytes > (8 * GIB if len(self.shape or ()) == 2 else 32 * GIB)
