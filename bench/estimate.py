"""Peaks predicted against the real allocator's; verdicts against real runs; three other ways beside ours."""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench import child
from bench.measure import Ratio, interval
from bench.zoo import SETTINGS
from fitroom.units import MIB

_RUNS = 3  # real runs of each size, each in a process of its own
_BUDGETS = 2  # verdicts for each size
_LARGEST = {  # a budget in MiB for each
    "MLP": 200,
    "U-Net": 400,
    "transformer": 500,
    "ViT": 400,
    "LSTM + Embedding": 200,
    "autoencoder": 250,
    "VGG16": 1100,
    "own train_step": 400,
}
_WAYS = {
    "peak": "fitroom.estimate",
    "traced": "fitroom.estimate, traced only",
    "two_points": "two points, extrapolated",
    "outputs": "sum of layer outputs",
    "grappler": "DeterminePeakMemoryUsage",
}


def run(names: tuple[str, ...] = tuple(SETTINGS), runs: int = _RUNS, budgets: int = _BUDGETS) -> Iterator[Ratio]:
    generator = random.Random(0)
    errors: dict[str, list[float]] = {way: [] for way in (*_WAYS, "xla")}
    verdicts: list[dict[str, Any]] = []
    times: list[float] = []
    with ThreadPoolExecutor(2) as pool:  # a process each: the allocator does not care who runs beside
        for name in names:
            sizes = SETTINGS[name].sizes
            found = child.run("estimated", name, *sizes, limit="12GiB")
            times.append(found["seconds"] / found["first_step"])
            print(f"{name}: estimated in {times[-1]:.1f} first steps", file=sys.stderr)
            jobs = {
                size: [pool.submit(child.run, "real_peak", name, size, limit="9GiB") for _ in range(runs)]
                for size in sizes
            }
            tries = []
            for size, started in jobs.items():
                real = statistics.median(one.result()["peak"] for one in started)
                if name.endswith("XLA"):  # a row of its own
                    errors["xla"].append(found["peak"][str(size)] / real - 1)
                else:
                    for way in _WAYS:
                        if found[way][str(size)]:
                            errors[way].append(found[way][str(size)] / real - 1)
                error = found["peak"][str(size)] / real - 1
                print(f"{name}, batch {size}: real {real / MIB:.0f} MiB, {error:+.1%}", file=sys.stderr)
                for _ in range(budgets):
                    budget = int(real * generator.uniform(0.8, 1.2)) // MIB * MIB
                    tries.append((size, budget, pool.submit(_runs, name, size, budget)))
            for size, budget, started in tries:
                fits = child.fits(found, size, budget)
                verdicts.append({"fits": fits, "runs": started.result()})
                print(f"{name}, batch {size} in {budget / MIB:.0f} MiB: {verdicts[-1]}", file=sys.stderr)
        ratios = list(pool.map(_largest, [name for name in names if name in _LARGEST]))
    for way, title in {**_WAYS, "xla": "fitroom.estimate, XLA"}.items():
        if errors[way]:
            yield from _errors(title, errors[way], has_goal=way == "peak")
    yield from _verdicts(verdicts)
    if ratios:
        title = "largest batch that runs ÷ largest that we say fits"
        note = f" {len(ratios)} settings; {sum(ratio < 1 for ratio in ratios)} said too much"
        yield Ratio(title, statistics.median(ratios), *interval(ratios), goal=1 / 0.92, note=note)
    # A new process starts for it: that comes on top, and is taken off here.
    worst = max(times)
    yield Ratio("estimate ÷ plain first step, at most", worst, *interval(times), goal=3.0)


def _largest(name: str) -> float:
    """The largest batch that really runs ÷ the largest that we say fits, found to two percent."""
    budget = _LARGEST[name]
    said = int(child.run("largest", name, f"{budget}MiB", limit="12GiB")["batch"])
    low, high = 0, max(said, 1)
    while _runs(name, high, budget * MIB):
        low, high = high, max(high + 1, round(1.15 * high))
    while high - low > max(1, 0.02 * high):
        middle = (low + high) // 2 if low else round(high / 1.15)
        low, high = (middle, high) if _runs(name, middle, budget * MIB) else (low, middle)
    print(f"{name} in {budget} MiB: said {said}, really {low}", file=sys.stderr)
    return low / max(said, 1)


def _runs(name: str, size: int, budget: int) -> bool:
    return bool(child.run("real_peak", name, size, limit=f"{budget // MIB}MiB")["runs"])


def _errors(title: str, errors: list[float], has_goal: bool) -> Iterator[Ratio]:
    sizes = sorted(abs(error) for error in errors)
    low, high = interval(sizes)
    note = f" of {len(sizes)}; on average {statistics.mean(errors):+.1%}"
    yield Ratio(f"{title}: error, median", statistics.median(sizes), low, high, 0.03 if has_goal else None, note)
    highest = sizes[min(int(0.95 * len(sizes)), len(sizes) - 1)]
    yield Ratio(f"{title}: error, 95th percentile", highest, highest, sizes[-1], 0.08 if has_goal else None)


def _verdicts(verdicts: list[dict[str, Any]]) -> Iterator[Ratio]:
    false_fits = sum(one["fits"] and not one["runs"] for one in verdicts)
    missed = sum(one["runs"] and not one["fits"] for one in verdicts)
    share = false_fits / len(verdicts)
    yield Ratio(f"{len(verdicts)} verdicts: said to fit, and did not", share, share, share, goal=0.02)
    share = missed / len(verdicts)
    yield Ratio(f"{len(verdicts)} verdicts: said not to fit, and did", share, share, share)
