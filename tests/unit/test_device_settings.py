"""A budget on a GPU, and a script that asks for memory growth: tried on a TensorFlow that says it has one."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from fitroom.training import device_settings


class Card:
    name = "/physical_device:GPU:0"
    device_type = "GPU"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What reaches TensorFlow; it raises for growth on a limited card, as the real one does."""
    made: list[tuple[Any, ...]] = []

    def configure(device: Any, logical: Any) -> None:
        made.append((device.name, [one.memory_limit for one in logical]))

    def growth(device: Any, enable: bool) -> None:
        raise ValueError("Cannot set memory growth on device when virtual devices configured")

    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: [Card()])
    monkeypatch.setattr(tf.config, "set_logical_device_configuration", configure)
    monkeypatch.setattr(tf.config.experimental, "set_virtual_device_configuration", configure)
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", growth)
    return made


def limit(mib: int) -> Any:
    return tf.config.LogicalDeviceConfiguration(memory_limit=mib)


def test_growth_is_a_recorded_no_op_where_the_limit_stands(calls: list[tuple[Any, ...]]) -> None:
    events: list[tuple[str, dict[str, Any]]] = []
    device_settings.hold(4096, lambda kind, **data: events.append((kind, data)))
    assert calls == [(Card.name, [4096])]
    for card in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(card, True)
    assert [kind for kind, _ in events] == ["setting_ignored"]
    assert events[0][1]["setting"] == "set_memory_growth"


@pytest.mark.parametrize("name", ["set_logical_device_configuration", "set_virtual_device_configuration"])
def test_a_smaller_limit_of_the_scripts_own_is_taken_a_larger_is_not(calls: list[tuple[Any, ...]], name: str) -> None:
    events: list[str] = []
    device_settings.hold(4096, lambda kind, **data: events.append(kind))
    owner = tf.config if "logical" in name else tf.config.experimental
    getattr(owner, name)(Card(), [limit(1024), limit(2048)])
    assert calls[-1] == (Card.name, [1024, 2048])
    assert events == []
    getattr(owner, name)(Card(), [limit(8192)])
    getattr(owner, name)(Card(), [limit(4096), limit(1)])
    assert len(calls) == 2
    assert events == ["setting_ignored"] * 2


def test_without_a_gpu_nothing_is_touched(calls: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: [])
    before = tf.config.experimental.set_memory_growth
    device_settings.hold(4096, lambda kind, **data: None)
    assert tf.config.experimental.set_memory_growth is before
    assert calls == []
