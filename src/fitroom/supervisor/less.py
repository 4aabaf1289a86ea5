"""After a death of memory: what the next attempt does to need less. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from fitroom.units import MIB

_OF_ROOM = 0.6  # of what a limit leaves to tensors: the rest is for what is no tensor
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
        few_arenas: whether C's allocator is kept from setting address space aside for every thread.
    """

    budget_mib: int | None = None
    slices: int = 1
    few_arenas: bool = False


@dataclass(frozen=True)
class Host:
    """A limit on the host's memory, as a training saw it, in bytes.

    Attributes:
        limit: what there is.
        is_address_space: whether it is one on address space, used or not.
        before: what was used of it when the first training began; 0 where none did.
    """

    limit: int
    before: int
    is_address_space: bool = False

    @property
    def room(self) -> int:
        """What it leaves to the training."""
        return self.limit - self.before


def less(settings: Settings, host: Host | None, *, on_gpu: bool) -> Settings | None:
    """Settings that need less; None where there is nothing more to do.

    On a CPU, tensors live in the host's memory: an allocator with a limit turns a kill into an error, which the guard
    survives. Where that did not do, and on a GPU, whose own limit is not the host's, smaller pieces from the start.
    """
    few_arenas = settings.few_arenas or (host is not None and host.is_address_space)
    if not on_gpu and settings.budget_mib is None and host is not None:
        budget = int(host.room * _OF_ROOM) // MIB
        return Settings(max(budget, _LEAST), settings.slices, few_arenas)
    if settings.slices >= _FINEST:
        return None
    budget_mib = settings.budget_mib
    if not on_gpu and budget_mib is not None:
        budget_mib = max(int(budget_mib * _EACH_TIME), _LEAST)
    return Settings(budget_mib, settings.slices * _FINER, few_arenas)
