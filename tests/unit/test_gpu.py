"""The GPU side, as far as it goes without one: a stand-in for NVML, and TensorFlow's own configuration calls."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

from fitroom import devices
from fitroom.devices import gpu
from fitroom.errors import DeviceError, UsageError
from fitroom.units import GIB, MIB


class NotSupportedError(Exception):
    pass


class FakeNvml:
    """Two cards; the second is half taken by another process."""

    NVMLError = NotSupportedError
    total = (24 * GIB, 12 * GIB)
    free = (23 * GIB, 6 * GIB)
    names = ("RTX 4090", "RTX 3060")
    closed = 0
    unified = False

    def nvmlInit(self) -> None: ...  # noqa: N802

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.closed += 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.total)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return f"GPU-{handle}abc"

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        return self.names[handle]

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:  # noqa: N802
        if self.unified:
            raise NotSupportedError
        return SimpleNamespace(total=self.total[handle], free=self.free[handle])

    def nvmlDeviceGetCudaComputeCapability(self, handle: int) -> tuple[int, int]:  # noqa: N802
        return (8, 9) if handle == 0 else (8, 6)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[SimpleNamespace]:  # noqa: N802
        mine = SimpleNamespace(pid=os.getpid(), usedGpuMemory=1)
        return [mine] if handle == 0 else [SimpleNamespace(pid=4242, usedGpuMemory=None)]

    def nvmlSystemGetProcessName(self, pid: int) -> str:  # noqa: N802
        raise NotSupportedError


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.setattr(gpu, "_DRIVER_NODES", ("/",))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("TF_DEVICE_MIN_SYS_MEMORY_IN_MB", raising=False)
    return fake


def test_without_a_driver_there_is_no_gpu() -> None:
    assert gpu.visible() == ()


def test_cards_are_described_and_nvml_is_closed(nvml: FakeNvml) -> None:
    first, second = gpu.visible()
    assert (first.name, first.number, first.free) == ("RTX 4090", 0, 23 * GIB)
    assert first.processes == ()  # this process is not someone else
    assert [one.pid for one in second.processes] == [4242]
    assert second.processes[0].used is None
    assert nvml.closed == 1


@pytest.mark.parametrize(
    ("wish", "names"),
    [
        ("0,1", ["RTX 4090", "RTX 3060"]),
        ("1", ["RTX 3060"]),
        ("1,0", ["RTX 3060", "RTX 4090"]),
        ("GPU-1", ["RTX 3060"]),
        ("", []),
        ("-1", []),
        ("0,7,1", ["RTX 4090"]),
        (" 1 ", ["RTX 3060"]),
    ],
)
def test_cuda_visible_devices_is_kept_to(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch, wish: str, names: list[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", wish)
    gpus = gpu.visible()
    assert [one.name for one in gpus] == names
    assert [one.number for one in gpus] == list(range(len(names)))


def test_a_card_without_memory_of_its_own_is_left_out(nvml: FakeNvml) -> None:
    nvml.unified = True
    assert gpu.visible() == ()


@pytest.mark.parametrize(
    ("free", "capability", "mib"),
    [
        (GIB, (8, 6), 225),
        (2 * GIB, (6, 1), 500),
        (10 * GIB, (7, 5), 1050),
        (10 * GIB, (8, 6), 1536),
        (10 * GIB, (9, 0), 1800),
        (10 * GIB, (12, 0), 1800),
    ],
)
def test_the_reserve_is_tensorflows_rule(
    monkeypatch: pytest.MonkeyPatch, free: int, capability: tuple[int, int], mib: int
) -> None:
    monkeypatch.delenv("TF_DEVICE_MIN_SYS_MEMORY_IN_MB", raising=False)
    assert gpu.reserve(free, capability) == mib * MIB
    monkeypatch.setenv("TF_DEVICE_MIN_SYS_MEMORY_IN_MB", "77")
    assert gpu.reserve(free, capability) == 77 * MIB


def test_with_nothing_asked_the_fullest_card_decides(nvml: FakeNvml) -> None:
    budget = devices.budget()
    assert (budget.device, budget.kind, budget.origin) == ("GPU:1", "gpu", "free")
    assert budget.mib == 6 * 1024 - 1536


def test_a_budget_on_gpus_is_on_the_gpus(nvml: FakeNvml) -> None:
    assert devices.budget("8GiB").kind == "gpu"
    with pytest.raises(UsageError, match="RTX 3060"):
        devices.budget("16GiB")


def test_tensorflow_takes_the_limit_on_every_card(monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    taken: list[tuple[str, int]] = []
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["first", "second"])
    monkeypatch.setattr(
        tf.config,
        "set_logical_device_configuration",
        lambda one, configurations: taken.append((one, configurations[0].memory_limit)),
    )
    assert gpu.set_limit(1000)
    assert taken == [("first", 1000), ("second", 1000)]


def test_a_limit_that_comes_too_late_is_not_enforced(monkeypatch: pytest.MonkeyPatch, nvml: FakeNvml) -> None:
    import tensorflow as tf

    def too_late(*_: object) -> None:
        raise RuntimeError("Virtual devices cannot be modified after being initialized")

    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["first"])
    monkeypatch.setattr(tf.config, "set_logical_device_configuration", too_late)
    budget = devices.enforce(devices.budget("8GiB"))
    assert not budget.enforced


def test_a_limit_without_a_gpu_is_refused() -> None:
    with pytest.raises(DeviceError, match="no GPU"):
        gpu.set_limit(1000)


def test_env_names_who_holds_the_card(nvml: FakeNvml, capsys: pytest.CaptureFixture[str]) -> None:
    from fitroom.commands import main

    assert main(["env"]) == 0
    text = capsys.readouterr().out
    assert "held by process 4242 (?): an unknown amount" in text
    assert "RTX 4090: 24 GiB, 23 GiB free" in text
    assert "GPUs of different kinds" in text
