"""``fitroom env``."""

from __future__ import annotations

import argparse
import os
import sys

from fitroom import __version__
from fitroom.units import format_bytes

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from fitroom.devices.gpu import Gpu

# What the environment can say about TensorFlow's and Keras' memory.
SETTINGS = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "KERAS_BACKEND", "TF_USE_LEGACY_KERAS", "TF_GPU_ALLOCATOR",
    "TF_FORCE_GPU_ALLOW_GROWTH", "TF_DEVICE_MIN_SYS_MEMORY_IN_MB", "TF_CUDNN_WORKSPACE_LIMIT_IN_MB",
    "TF_CPU_ALLOCATOR_USE_BFC", "TF_CPU_BFC_MEM_LIMIT_IN_MB", "TF_BFC_MEMORY_DUMP", "TF_XLA_FLAGS", "XLA_FLAGS",
    "TF_DETERMINISTIC_OPS", "MALLOC_ARENA_MAX", "LD_PRELOAD",
)  # fmt: skip


class Env:
    """Show versions, devices, memory and settings: the block to paste into an issue.

    Nothing is changed, and TensorFlow is not loaded.
    """

    name = "env"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument("--budget", metavar="SIZE", help="also tell what fitroom would set for it, such as 8GiB")
        parser.add_argument("--json", action="store_true", help="print JSON")

    def run(self, arguments: argparse.Namespace) -> int:
        """Gather and print."""
        facts = gather(arguments.budget)
        if arguments.json:
            import json

            print(json.dumps(facts, indent=2, ensure_ascii=False))
        else:
            print(_text(facts))
        return 0


def gather(asked: str | None = None) -> dict[str, Any]:
    """Everything that ``fitroom env`` tells, as JSON values."""
    from fitroom import devices, versions

    packages = versions.installed()
    gpus = devices.gpu.visible()
    host = devices.host.memory()
    budget = devices.budget(asked)
    notes = versions.advisories(packages, os.environ)
    if sys.platform != "linux":
        notes.insert(0, f"fitroom works on Linux (WSL included); on {sys.platform} budgets cannot be enforced")
    if len({gpu.name for gpu in gpus}) > 1 and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        notes.append(
            "GPUs of different kinds: CUDA may number them otherwise than here. Try: CUDA_DEVICE_ORDER=PCI_BUS_ID"
        )
    return {
        "schema": "fitroom/env/1",
        "fitroom": __version__,
        "python": sys.version.split()[0],
        "system": devices.host.system(),
        "packages": {name: packages[name].version for name in versions.PACKAGES if name in packages},
        "host": {"total": host.total, "available": host.available, "limited_by": host.limited_by},
        "gpus": [_gpu(gpu) for gpu in gpus],
        "settings": {name: os.environ[name] for name in SETTINGS if name in os.environ},
        "budget": {"bytes": budget.bytes, "text": str(budget)},
        "would_set": _would_set(devices, budget.kind, budget.bytes, budget.origin),
        "advisories": notes,
    }


def _would_set(devices: Any, kind: str, size: int, origin: str) -> dict[str, str]:
    """What a run would change in the environment of the training process, for this budget."""
    if origin != "asked":
        return {}
    if kind == "pocket":
        return dict(devices.pocket.environment(size))
    return {"memory_limit on every GPU (set before TensorFlow's first operation)": format_bytes(size)}


def _gpu(gpu: Gpu) -> dict[str, Any]:
    return {
        "device": f"GPU:{gpu.number}",
        "name": gpu.name,
        "total": gpu.total,
        "free": gpu.free,
        "usable": gpu.usable,
        "capability": f"{gpu.capability[0]}.{gpu.capability[1]}",
        "processes": [{"pid": one.pid, "name": one.name, "used": one.used} for one in gpu.processes],
    }


def _text(facts: dict[str, Any]) -> str:
    host = facts["host"]
    limit = f", limited by {host['limited_by']}" if host["limited_by"] else ""
    lines = [f"fitroom {facts['fitroom']}, Python {facts['python']}, {facts['system']}"]
    lines += _section("Packages", facts["packages"], "none that fitroom works with")
    lines += ["", "Memory"]
    lines += [f"  host     {format_bytes(host['total'])}, {format_bytes(host['available'])} available{limit}"]
    for gpu in facts["gpus"]:
        lines.append(
            f"  {gpu['device']}    {gpu['name']}: {format_bytes(gpu['total'])}, {format_bytes(gpu['free'])} free, "
            f"{format_bytes(gpu['usable'])} for TensorFlow (compute capability {gpu['capability']})"
        )
        for one in gpu["processes"]:
            used = "an unknown amount" if one["used"] is None else format_bytes(one["used"])
            lines.append(f"           held by process {one['pid']} ({one['name']}): {used}")
    if not facts["gpus"]:
        lines.append("  GPU      none visible")
    lines.append(f"  budget   {facts['budget']['text']}")
    lines += _section("Settings in force", facts["settings"], "none: TensorFlow's defaults")
    lines += _section("What fitroom would set", facts["would_set"], "nothing (no budget asked for)")
    lines += ["", "Advisories", *(f"  - {note}" for note in facts["advisories"] or ["none"])]
    return "\n".join(lines)


def _section(title: str, values: dict[str, str], otherwise: str) -> list[str]:
    width = max(map(len, values), default=0)
    return [
        "",
        title,
        *([f"  {key:{width}}  {value}" for key, value in values.items()] or [f"  {otherwise}"]),
    ]
