"""A budget on a GPU: set before TensorFlow uses it, and kept when the script asks for memory growth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fitroom.devices import gpu


def hold(mib: int, tell: Callable[..., object]) -> None:
    """Limit TensorFlow's allocator on every GPU, and keep the script from undoing it.

    TensorFlow raises where a script asks a GPU with a limit for memory growth; here it asks in vain, and goes on.
    """
    import tensorflow as tf

    if not tf.config.list_physical_devices("GPU"):
        return
    gpu.set_limit(mib)
    configure = tf.config.set_logical_device_configuration

    def set_memory_growth(device: Any, enable: bool) -> None:
        tell("setting_ignored", setting="set_memory_growth", device=str(device.name), value=bool(enable))

    def set_logical_device_configuration(device: Any, logical_devices: Any) -> None:
        limits = [one.memory_limit for one in logical_devices]
        if device.device_type != "GPU" or (None not in limits and sum(limits) <= mib):
            configure(device, logical_devices)
        else:
            tell(
                "setting_ignored",
                setting="set_logical_device_configuration",
                device=str(device.name),
                value=str(limits),
            )

    tf.config.experimental.set_memory_growth = set_memory_growth
    tf.config.set_logical_device_configuration = set_logical_device_configuration
    tf.config.experimental.set_virtual_device_configuration = set_logical_device_configuration
