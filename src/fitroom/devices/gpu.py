"""The GPUs: what they have, what is free, who holds the rest; and the limits to set before TensorFlow starts.

What is there is asked of NVML, without TensorFlow and without touching a CUDA context. Only setting a limit needs
TensorFlow, which takes it before its first operation and never after.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from fitroom.core.plain import plain
from fitroom.errors import DeviceError
from fitroom.units import GIB, MIB, format_bytes

T = TypeVar("T")

# The driver's control device on Linux, and its counterpart inside WSL. Without one there is no GPU to ask about.
_DRIVER_NODES = ("/dev/nvidiactl", "/dev/dxg", "/proc/driver/nvidia/version")


class GpuProcess(NamedTuple):
    """A process that holds memory on a GPU; `used` is None where the driver does not tell."""

    pid: int
    name: str
    used: int | None


class Gpu(NamedTuple):
    """One GPU as it is now, in bytes.

    Attributes:
        number: TensorFlow's number for it (after ``CUDA_VISIBLE_DEVICES``): 0 is ``GPU:0``.
        capability: CUDA compute capability.
        processes: who holds memory on it, this process left out.
    """

    number: int
    name: str
    total: int
    free: int
    capability: tuple[int, int]
    uuid: str = ""
    processes: tuple[GpuProcess, ...] = ()

    @property
    def usable(self) -> int:
        """What TensorFlow's allocator would take as its limit now: what is free less the reserve."""
        return max(0, self.free - reserve(self.free, self.capability))


def reserve(free: int, capability: tuple[int, int]) -> int:
    """What TensorFlow leaves to CUDA and the system (its rule as of 2.21; the environment may override it)."""
    override = os.environ.get("TF_DEVICE_MIN_SYS_MEMORY_IN_MB", "")
    if override.isdigit():
        return int(override) * MIB
    if free < 2 * GIB:
        return 225 * MIB
    major = capability[0]
    return (500 if major <= 6 else 1050 if major == 7 else 1536 if major == 8 else 1800) * MIB


def visible() -> tuple[Gpu, ...]:
    """The GPUs that this process may use, in TensorFlow's order; none where there is no NVIDIA driver."""
    with driver() as nvml:
        gpus = [describe(index, handle, nvml) for index, handle in enumerate(handles(nvml))]
        return tuple(gpu for gpu in gpus if gpu is not None)


def handles(nvml: Any) -> list[Any]:
    """NVML's handles of the GPUs that this process may use, in TensorFlow's order; none without a driver."""
    if nvml is None:
        return []
    found = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    return _select(found, os.environ.get("CUDA_VISIBLE_DEVICES"), nvml)


def held(pid: int) -> int:
    """How many bytes a process holds on the GPUs; 0 where there are none, or the driver does not tell."""
    total = 0
    with driver() as nvml:
        for index in range(0 if nvml is None else nvml.nvmlDeviceGetCount()):
            try:
                holders = nvml.nvmlDeviceGetComputeRunningProcesses(nvml.nvmlDeviceGetHandleByIndex(index))
            except nvml.NVMLError:
                continue
            total += sum(holder.usedGpuMemory or 0 for holder in holders if holder.pid == pid)
    return total


@contextmanager
def driver() -> Iterator[Any]:
    """NVIDIA's management library, ready to be asked; None where there is no driver."""
    if not any(Path(node).exists() for node in _DRIVER_NODES):
        yield None
        return
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _select(handles: list[Any], wish: str | None, nvml: Any) -> list[Any]:
    """The devices that ``CUDA_VISIBLE_DEVICES`` lets through, by number or UUID; the first bad entry ends the list."""
    if wish is None:
        return handles
    uuids = [str(nvml.nvmlDeviceGetUUID(handle)) for handle in handles]
    chosen: list[Any] = []
    for entry in filter(None, (part.strip() for part in wish.split(","))):
        if entry.isdigit() and int(entry) < len(handles):
            chosen.append(handles[int(entry)])
        elif entry.startswith(("GPU-", "MIG-")) and (found := [i for i, u in enumerate(uuids) if u.startswith(entry)]):
            chosen.append(handles[found[0]])
        else:
            break
    return chosen


def describe(index: int, handle: Any, nvml: Any) -> Gpu | None:
    """One GPU as it is now; None where it has no memory of its own."""

    def ask(question: Callable[[], T], otherwise: T) -> T:
        try:
            return question()
        except (nvml.NVMLError, UnicodeDecodeError):  # a process may have any bytes as its name
            return otherwise

    memory = ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle), None)
    if memory is None:
        return None  # a device without memory of its own (Jetson and other unified memory): the host's counts
    holders: list[Any] = ask(lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle), [])
    return Gpu(
        index,
        str(ask(lambda: nvml.nvmlDeviceGetName(handle), "unknown GPU")),
        int(memory.total),
        int(memory.free),
        ask(lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle), (8, 0)),
        str(ask(lambda: nvml.nvmlDeviceGetUUID(handle), "")),
        tuple(
            GpuProcess(
                holder.pid,
                plain(str(ask(lambda pid=holder.pid: nvml.nvmlSystemGetProcessName(pid), "?"))),  # type: ignore[misc] # a default binds the pid
                holder.usedGpuMemory,
            )
            for holder in holders
            if holder.pid != os.getpid()
        ),
    )


def environment(*, growth: bool = False) -> dict[str, str]:
    """The environment variables that fitroom would set for a process on a GPU."""
    return {"TF_FORCE_GPU_ALLOW_GROWTH": "true"} if growth else {}


def set_limit(mib: int) -> bool:
    """Limit TensorFlow's allocator to `mib` MiB on every visible GPU; False where TensorFlow has started already.

    Raises:
        DeviceError: if TensorFlow sees no GPU.
    """
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        raise DeviceError("TensorFlow sees no GPU to limit", received=f"a limit of {format_bytes(mib * MIB)}")
    try:
        for gpu in gpus:
            tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=mib)])
    except RuntimeError:  # "Virtual devices cannot be modified after being initialized"
        return False
    return True
