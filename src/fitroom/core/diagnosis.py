"""What ran out, why, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fitroom.core import diagnosis_text
from fitroom.core.advice import Advice
from fitroom.core.cause import Cause
from fitroom.core.noun import Noun
from fitroom.core.remedy import Remedy
from fitroom.core.resource import Resource

TYPE_CHECKING = False

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True)
class Evidence:
    """A line that a diagnosis rests on; `line` counts from 1, None where there is no file."""

    text: str
    line: int | None = None


@dataclass(frozen=True, repr=False)
class Diagnosis(Noun):
    """What ran out and why, the lines that say so, the numbers in them, and what to do, best first.

    Attributes:
        confidence: how sure the cause is, from 0 to 1.
        replica: the replica of a strategy that ran out, counted from 0, where it is known.
        wanted_bytes: what was asked for last; often by the victim, not the culprit.
        op: the operation that asked, as the message names it.
        layer: the layer of the model that it belongs to, where its name tells.
        phase: where in the step it was, where that is known.
        limit_bytes, in_use_bytes: of the memory, or of the limit, that ran out.
        fragmentation: (pool - in use - largest free) / (pool - in use), from 0 to 1.
        summary: the cause in words.
        why: what speaks for it, in words.
        alternatives: other causes that the evidence would allow, likeliest first.
        remedies: those that Fitroom carries out by itself, best first.
        advice: what to do, best first.
        futile: what will not help.
        times: how often the same was found.
        others: further failures in the same text, in their order.
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
    phase: Literal["", "forward", "backward", "update"] = ""
    allocator: str | None = None
    limit_bytes: int | None = None
    in_use_bytes: int | None = None
    largest_free_bytes: int | None = None
    fragmentation: float | None = None
    summary: str = ""
    why: tuple[str, ...] = ()
    alternatives: tuple[Cause, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    advice: tuple[Advice, ...] = ()
    futile: tuple[str, ...] = ()
    times: int = 1
    replica: int | None = None
    others: tuple[Diagnosis, ...] = ()

    @property
    def ran_out(self) -> bool:
        """Whether anything ran out at all."""
        return self.resource is not Resource.NOT_EXHAUSTION

    def __post_init__(self) -> None:
        for name in ("confidence", "fragmentation"):
            share = getattr(self, name)
            if share is not None and not 0 <= share <= 1:
                raise ValueError(f"{name} is a share between 0 and 1, not {share}")

    def __rich__(self) -> Group:
        return diagnosis_text.rendered(self)

    def __repr__(self) -> str:
        return diagnosis_text.text(self)

    def __str__(self) -> str:
        return diagnosis_text.headline(self)
