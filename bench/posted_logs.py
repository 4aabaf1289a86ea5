"""How rightly posted logs are diagnosed, field by field: logs with what is known to be true of each."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fitroom

FIELDS = ("device", "wanted_bytes", "tensor_shape", "dtype", "op", "allocator", "limit_bytes", "in_use_bytes")
ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Score:
    """How many of the values that the truth gives were found, and which were not."""

    right: int = 0
    missed: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        return self.right / ((self.right + len(self.missed)) or 1)

    def count(self, is_right: bool, miss: str) -> None:
        if is_right:
            self.right += 1
        else:
            self.missed.append(miss)


def posted() -> list[dict[str, Any]]:
    """The posted logs, if their folder lies beside the project; it is not part of it."""
    paths = sorted(path for folder in ROOT.parent.glob("*/oom-logs") for path in folder.glob("*.json"))
    return [json.loads(path.read_text()) for path in paths]


def scores(cases: list[dict[str, Any]]) -> dict[str, Score]:
    """The score of every field, of the resource and of the cause, over these logs."""
    found: dict[str, Score] = defaultdict(Score)
    for case in cases:
        truth, told = case["truth"], fitroom.diagnose(case["log"])
        for name in FIELDS:
            if truth.get(name) is not None:
                value = getattr(told, name)
                found[name].count(_equal(name, truth, value), f"{case['id']}: {value} instead of {truth[name]}")
        if truth.get("resource_in_log") is not False:
            miss = f"{case['id']}: {told.resource.value} instead of {truth['resource']}"
            found["resource"].count(told.resource.value == truth["resource"], miss)
            is_decoy = not truth["resource"].endswith("_memory")
            if is_decoy:
                found["decoys left alone"].count(told.resource.value != "gpu_memory", miss)
        basis = truth.get("cause_basis")
        if truth.get("cause") and basis != "none":
            name = "cause, stated or in the log" if basis in ("stated", "log") else "cause, inferred"
            words = f"{case['id']}: {told.cause.value} ({told.confidence}) instead of {truth['cause']} ({basis})"
            found[name].count(told.cause.value == truth["cause"], words)
    return found


def _equal(name: str, truth: dict[str, Any], value: Any) -> bool:
    if name == "tensor_shape":
        return value is not None and list(value) == truth[name]
    if name == "wanted_bytes" and value is not None:
        # Text such as 30.85GiB has four digits.
        return abs(value - truth[name]) <= (0.005 * truth[name] if truth.get("wanted_bytes_is_rounded") else 0)
    return bool(value == truth[name])
