"""The GPUs at work: how busy, how hot, how full, and with whom they are shared. Asked time after time, of NVML."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any, NamedTuple

from fitroom.devices import gpu
from fitroom.devices.gpu import Gpu, GpuProcess
from fitroom.units import MIB

_GROWTH = 256 * MIB  # of another process: less is its own affair


class GpuUse(NamedTuple):
    """One GPU at work.

    Attributes:
        gpu: what it has, and what is free.
        use: how much of the time it computes, 0 to 1; None where the driver does not tell.
        temperature: in degrees Celsius; None where the driver does not tell.
        others: the processes on it that are not ours.
    """

    gpu: Gpu
    use: float | None
    temperature: int | None
    others: tuple[GpuProcess, ...] = ()

    @property
    def taken(self) -> int:
        """What others hold, in bytes, as far as the driver tells."""
        return sum(one.used or 0 for one in self.others)

    @property
    def left(self) -> int:
        """What others leave, in bytes."""
        return max(0, self.gpu.total - self.taken)

    def values(self) -> dict[str, float]:
        """Its figures, by name."""
        name = f"gpu{self.gpu.number}"
        found = {f"{name}_memory": self.gpu.total - self.gpu.free, f"{name}_limit": self.gpu.total}
        found |= {f"{name}_others": self.taken}
        told = {f"{name}_use": self.use, f"{name}_temperature": self.temperature}
        return {**found, **{key: float(value) for key, value in told.items() if value is not None}}


def foreign(processes: Iterable[GpuProcess], ours: set[int]) -> tuple[GpuProcess, ...]:
    """The processes that are not ours.

    In a container the driver may give the machine's numbers, of which one is ours under another: only those count that
    are processes here.
    """
    return tuple(one for one in processes if one.pid not in ours and _exists(one.pid))


class GpuWatch:
    """Asks the driver again and again, without starting anew each time."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._nvml = self._stack.enter_context(gpu.driver())
        try:
            self._handles = gpu.handles(self._nvml)
        except self._nvml.NVMLError:  # a card that is lost, or a driver that is being exchanged
            self._handles = []

    def look(self, ours: set[int]) -> list[GpuUse]:
        """The GPUs now.

        Args:
            ours: the processes that are not others.
        """
        found = []
        for index, handle in enumerate(self._handles):
            one = gpu.describe(index, handle, self._nvml)
            if one is not None:
                others = foreign(one.processes, ours)
                found.append(GpuUse(one, self._busy(handle), self._degrees(handle), others))
        return found

    def close(self) -> None:
        """Let go of the driver."""
        self._handles = []
        self._stack.close()

    def _busy(self, handle: Any) -> float | None:
        try:
            return float(self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu) / 100
        except self._nvml.NVMLError:  # a part of a card (MIG), or a card without a counter
            return None

    def _degrees(self, handle: Any) -> int | None:
        try:
            return int(self._nvml.nvmlDeviceGetTemperature(handle, 0))
        except self._nvml.NVMLError:
            return None


class Change(NamedTuple):
    """Another process on a GPU that has grown, or given back.

    Attributes:
        device: the GPU's name as TensorFlow says it.
        process: as it is now; its `used` is 0 once it has ended.
        before: what it held when it was last told of.
        left: what others leave of the GPU now.
    """

    device: str
    process: GpuProcess
    before: int
    left: int


class Neighbours:
    """Notices when another process on a GPU has grown, or has given back much."""

    def __init__(self) -> None:
        self._told: dict[tuple[int, int], GpuProcess] | None = None  # as last told of, by GPU and process

    def look(self, cards: list[GpuUse]) -> list[Change]:
        """What has changed since it was last told; at first, nothing."""
        now = {(card.gpu.number, one.pid): one for card in cards for one in card.others if one.used is not None}
        if self._told is None:
            self._told = now
            return []
        left = {card.gpu.number: card.left for card in cards}
        found = []
        for key in (self._told.keys() | now.keys()) if left else ():
            before = self._told.get(key)
            process = now.get(key) or GpuProcess(key[1], before.name if before else "?", 0)
            held = before.used or 0 if before is not None else 0
            if abs((process.used or 0) - held) >= _GROWTH and key[0] in left:
                found.append(Change(f"GPU:{key[0]}", process, held, left[key[0]]))
                self._told[key] = process
        return sorted(found)


def left_by_others(number: int, ours: set[int]) -> int | None:
    """What other processes leave of a GPU now, in bytes; None where nobody tells."""
    watch = GpuWatch()
    try:
        return next((one.left for one in watch.look(ours) if one.gpu.number == number), None)
    finally:
        watch.close()


def _exists(pid: int) -> bool:
    """Whether there is such a process, be it somebody else's."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError, ValueError):
        return False
    except PermissionError:
        return True
    return True
