"""A leak: what keeps growing, why, where, how fast, and what to do."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fitroom.core import Advice, Cause, Diagnosis, Evidence, Resource
from fitroom.core.noun import Scalar
from fitroom.leaks.places import Place
from fitroom.units import format_bytes


@dataclass(frozen=True)
class Leak:
    """One leak.

    Attributes:
        cause: why it grows.
        place: the line of the user's code that makes it grow.
        what: what is seen, in words.
        fix: what to do, in words; `code` is how.
        grown: how many bytes it has taken so far.
        per: what it grows with, such as "step".
        bytes_per: bytes for each of those.
        also: other lines that belong to it.
        on_device: whether it takes the device's memory, not the host's.
        confidence: from 0 to 1.
        seconds_left: until memory runs out, as things go; None where that cannot be told.
    """

    cause: Cause
    place: Place | None
    what: str
    fix: str
    code: str = ""
    grown: int = 0
    per: str = "step"
    bytes_per: float = 0.0
    also: tuple[Place, ...] = ()
    on_device: bool = False
    confidence: float = 0.9
    seconds_left: float | None = None

    @property
    def key(self) -> tuple[Cause, Place | None]:
        """What makes it the same leak when it is found again."""
        return self.cause, self.place

    def running_out_in(self, seconds: float | None) -> Leak:
        """The same, with the time that is left."""
        return replace(self, seconds_left=seconds)

    def event(self) -> dict[str, Scalar]:
        """What goes into the Record."""
        return {
            "cause": self.cause.value,
            "where": str(self.place) if self.place is not None else None,
            "file": self.place.file if self.place is not None else None,
            "line": self.place.line if self.place is not None else None,
            "also": ", ".join(map(str, self.also)) or None,
            "what": self.what,
            "fix": self.fix,
            "code": self.code,
            "grown_bytes": int(self.grown),
            "per": self.per,
            "bytes_per": round(self.bytes_per, 1),
            "resource": (Resource.GPU_MEMORY if self.on_device else Resource.HOST_MEMORY).value,
            "seconds_left": None if self.seconds_left is None else round(self.seconds_left, 1),
            "confidence": self.confidence,
        }

    def diagnosis(self) -> Diagnosis:
        """The same as a Diagnosis."""
        places = [one for one in (self.place, *self.also) if one is not None]
        return Diagnosis(
            resource=Resource.GPU_MEMORY if self.on_device else Resource.HOST_MEMORY,
            cause=self.cause,
            confidence=self.confidence,
            evidence=tuple(Evidence(str(place), place.line) for place in places),
            summary=self.cause.words,
            why=(self.what, f"{format_bytes(int(self.bytes_per))} more with each {self.per}"),
            advice=(Advice(self.fix, "memory stays where it is", self.code),),
        )
