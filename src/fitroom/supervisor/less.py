"""After a death of memory: what the next attempt does to need less. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fitroom.units import MIB

_OF_ROOM = 0.7  # of what a limit leaves to tensors: the rest is for what is no tensor
_EACH_TIME = 0.6  # of the budget that was still too much
_FINER = 4  # times as many slices
_LEAST = 16  # MiB: below it nothing trains
_FINEST = 256


@dataclass(frozen=True)
class Settings:
    """How one attempt runs.

    Attributes:
        budget_mib: what the device's allocator may take; None for what there is.
        slices: into how many slices batches go from the start, where that keeps the math; elsewhere activations are
            computed again. 1 for whole batches until memory runs out.
    """

    budget_mib: int | None = None
    slices: int = 1


@dataclass(frozen=True)
class Host:
    """The host's memory as a training saw it, in bytes.

    Attributes:
        limit: the limit that was nearest when it died.
        before: what was used of it when the first training began; 0 where none did.
    """

    limit: int
    before: int


def less(settings: Settings, host: Host | None, *, on_gpu: bool) -> Settings | None:
    """Settings that need less; None where there is nothing more to do.

    On a CPU, tensors live in the host's memory: an allocator with a limit turns a kill into an error, which the guard
    survives. Where that did not do, and on a GPU, whose own limit is not the host's, smaller pieces from the start.
    """
    if not on_gpu and settings.budget_mib is None and host is not None:
        room = host.limit - host.before
        budget = int(room * _OF_ROOM) // MIB
        return replace(settings, budget_mib=max(budget, _LEAST))
    if settings.slices >= _FINEST:
        return None
    budget_mib = settings.budget_mib
    if not on_gpu and budget_mib is not None:
        budget_mib = max(int(budget_mib * _EACH_TIME), _LEAST)
    return Settings(budget_mib, settings.slices * _FINER)
