"""The allocator's own counters: what is in use on the device that trains, and its peak."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from fitroom.devices import catalogue, gpu, gpu_use, pocket
from fitroom.units import MIB

_ROUGH = 64 * MIB  # what was learned under a limit is remembered by it: a little more or less is the same


class Meter(NamedTuple):
    """A device whose allocator counts; of several that train together, the fullest one counts.

    Attributes:
        device: its name, as TensorFlow says it.
        limit: what its allocator may take, in bytes; of several, the smallest one's.
        beside: the names of the others.
    """

    device: str
    limit: int
    beside: tuple[str, ...] = ()

    def current(self) -> int:
        """Bytes in use now."""
        return max(info["current"] for info in self._infos())

    def peak(self) -> int:
        """The most bytes in use at once since the last `reset`."""
        return max(info["peak"] for info in self._infos())

    def both(self) -> tuple[int, int]:
        """Bytes in use now, and the peak since the last `reset`."""
        infos = self._infos()
        return max(info["current"] for info in infos), max(info["peak"] for info in infos)

    def currents(self) -> list[int]:
        """Bytes in use now, on each device."""
        return [info["current"] for info in self._infos()]

    def grown(self, before: list[int]) -> int:
        """The most that a device had in use, since the last `reset`, beyond what it had `before`."""
        return max(info["peak"] - one for info, one in zip(self._infos(), before, strict=True))

    def free(self) -> int:
        """Bytes that can still be had: on a GPU less than the limit, where other processes have taken them."""
        taken = zip(self._devices, self._infos(), strict=True)
        return max(0, min(self._limit_of(device) - info["current"] for device, info in taken))

    def reset(self) -> None:
        """Start counting the peak anew."""
        import tensorflow as tf

        for device in self._devices:
            tf.config.experimental.reset_memory_stats(device)

    @property
    def _devices(self) -> tuple[str, ...]:
        return (self.device, *self.beside)

    def _limit_of(self, device: str) -> int:
        if not device.startswith("GPU"):
            return self.limit
        left = gpu_use.left_by_others(int(device.partition(":")[2]), {os.getpid()})
        return self.limit if left is None else min(self.limit, left)

    def _infos(self) -> list[dict[str, int]]:
        import tensorflow as tf

        return [tf.config.experimental.get_memory_info(device) for device in self._devices]


def smallest(cards: Sequence[gpu.Gpu]) -> int:
    """What TensorFlow's allocator has on the smallest card, less what other processes hold; 0 without a card."""
    others = (sum(one.used or 0 for one in card.processes) for card in cards)
    found = (catalogue.usable(card.total - held, card.capability) for card, held in zip(cards, others, strict=True))
    return min(found, default=0) // _ROUGH * _ROUGH


def find(budget: int | None = None, devices: Sequence[str] = ()) -> Meter | None:
    """The meter of the devices that train; None where the allocator does not count (a CPU without a limit).

    Args:
        budget: what was asked for, in bytes, where that is less than the allocator's limit.
        devices: their names, where they are known; the others are none of its business.
    """
    import tensorflow as tf

    count = len(tf.config.list_logical_devices("GPU"))
    if count:
        numbers = [int(name.rpartition("GPU:")[2]) for name in devices if "GPU:" in name] or [0]
        cards = gpu.visible()
        # Several logical devices may share a card: then their numbers are not the cards'.
        own = [cards[number] for number in numbers] if len(cards) == count else cards
        limit = smallest(own) if budget is None else budget
        first, *beside = (f"GPU:{number}" for number in numbers)
        return Meter(first, limit, tuple(beside)) if limit else None
    arena = pocket.limit()
    if arena is None:
        return None
    return Meter("CPU:0", arena if budget is None else min(arena, budget))
