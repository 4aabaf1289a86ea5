"""Activations computed again: peak and step time against plain training and against keras.RematScope."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from bench import child
from bench.measure import Ratio, interval
from fitroom.units import MIB

# Name, side or length, batch; whether the goals are for it; whether it is also measured with XLA.
CASES = (
    ("ResNet50", 96, 64, True, False),
    ("unet", 128, 64, True, True),
    ("transformer", 128, 64, True, True),
    ("MobileNetV2", 96, 64, False, False),
    ("EfficientNetB0", 96, 32, False, False),
    ("DenseNet121", 96, 32, False, False),
)


def run() -> Iterator[Ratio]:
    for name, side, batch, has_goal, with_xla in CASES:
        for xla in (False, True) if with_xla else (False,):
            yield from _against_plain(name, side, batch, has_goal and not xla, xla)
        yield from _keras_own(name, side, batch)


def _against_plain(name: str, side: int, batch: int, has_goal: bool, xla: bool) -> Iterator[Ratio]:
    title = f"{name}, batch {batch}" + (", XLA" if xla else "")
    plain, ours = (child.run("recompute_peak", name, side, batch, how, xla)["peak"] for how in ("plain", "recompute"))
    note = f" {ours / MIB:.0f} ÷ {plain / MIB:.0f} MiB"
    yield Ratio(f"{title}: peak ÷ plain", *[ours / plain] * 3, goal=0.55 if has_goal else None, note=note)
    ratios = child.run("recompute_time", name, side, batch, xla)["ratios"]
    goal = 1.35 if has_goal else None
    yield Ratio(f"{title}: step time ÷ plain", statistics.median(ratios), *interval(ratios), goal=goal)


def _keras_own(name: str, side: int, batch: int) -> Iterator[Ratio]:
    plain, own = (child.run("recompute_peak", name, side, batch, how, False) for how in ("plain", "remat"))
    title = f"{name}, batch {batch}: keras.RematScope, peak ÷ plain"
    if "error" in own:
        yield Ratio(title, *[float("nan")] * 3, note=f" fails: {own['error']}")
    else:
        yield Ratio(title, *[own["peak"] / plain["peak"]] * 3)
