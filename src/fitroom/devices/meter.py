"""The allocator's own counters: what is in use on the device that trains, and its peak."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from fitroom.devices import catalogue, gpu, gpu_use, pocket
from fitroom.units import MIB

_ROUGH = 64 * MIB  # what was learned under a limit is remembered by it: a little more or less is the same


class Meter(NamedTuple):
    """A device whose allocator counts.

    Attributes:
        device: its name, as TensorFlow says it.
        limit: what its allocator may take, in bytes.
    """

    device: str
    limit: int

    def current(self) -> int:
        """Bytes in use now."""
        return self._info()["current"]

    def peak(self) -> int:
        """The most bytes in use at once since the last `reset`."""
        return self._info()["peak"]

    def both(self) -> tuple[int, int]:
        """Bytes in use now, and the peak since the last `reset`."""
        info = self._info()
        return info["current"], info["peak"]

    def free(self) -> int:
        """Bytes that can still be had: on a GPU less than the limit, where other processes have taken them."""
        limit = self.limit
        if self.device.startswith("GPU"):
            left = gpu_use.left_by_others(int(self.device.partition(":")[2]), {os.getpid()})
            limit = limit if left is None else min(limit, left)
        return max(0, limit - self.current())

    def reset(self) -> None:
        """Start counting the peak anew."""
        import tensorflow as tf

        tf.config.experimental.reset_memory_stats(self.device)

    def _info(self) -> dict[str, int]:
        import tensorflow as tf

        info: dict[str, int] = tf.config.experimental.get_memory_info(self.device)
        return info


def smallest(cards: Sequence[gpu.Gpu]) -> int:
    """What TensorFlow's allocator has on the smallest card, less what other processes hold; 0 without a card."""
    others = (sum(one.used or 0 for one in card.processes) for card in cards)
    found = (catalogue.usable(card.total - held, card.capability) for card, held in zip(cards, others, strict=True))
    return min(found, default=0) // _ROUGH * _ROUGH


def find(budget: int | None = None) -> Meter | None:
    """The meter of the device that trains; None where the allocator does not count (a CPU without a limit).

    Args:
        budget: what was asked for, in bytes, where that is less than the allocator's limit.
    """
    import tensorflow as tf

    if tf.config.list_logical_devices("GPU"):
        limit = smallest(gpu.visible()) if budget is None else budget
        return Meter("GPU:0", limit) if limit else None
    arena = pocket.limit()
    if arena is None:
        return None
    return Meter("CPU:0", arena if budget is None else min(arena, budget))
