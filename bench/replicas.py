"""Guarded fit against plain fit on two replicas, where memory suffices: time of a training, in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator

from bench import child
from bench.measure import Ratio


def run() -> Iterator[Ratio]:
    for name in ("mlp", "cnn", "transformer"):
        yield Ratio(**child.run("on_replicas", name, 2))
