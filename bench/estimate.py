"""Peaks predicted against the real allocator's; verdicts against real runs; three other ways beside ours."""

from __future__ import annotations

import json
import random
import statistics
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from bench import child, real
from bench.keeping import code_of, kept
from bench.measure import Ratio, interval
from bench.zoo import SETTINGS
from fitroom.units import MIB

_BUDGETS = 2  # verdicts for each size
# In as much as the middle one of their sizes takes.
_LARGEST = ("MLP", "U-Net", "transformer", "ViT", "LSTM + Embedding", "autoencoder", "VGG16", "own train_step")
_WAYS = {
    "peak": "fitroom.estimate",
    "traced": "fitroom.estimate, traced only",
    "two_points": "two points, extrapolated",
    "outputs": "sum of layer outputs",
    "grappler": "DeterminePeakMemoryUsage",
}


def run(names: tuple[str, ...] = tuple(SETTINGS)) -> Iterator[Ratio]:
    errors: dict[str, list[float]] = {way: [] for way in (*_WAYS, "xla")}
    verdicts: list[tuple[bool, bool]] = []
    times, hundreds, shares = [], [], []
    for name in names:
        with ThreadPoolExecutor(2) as pool:  # a process each: the allocator does not care who runs beside
            peaks = dict(zip(SETTINGS[name].sizes, pool.map(partial(_real, name), SETTINGS[name].sizes), strict=True))
            budgets = {size: _budgets(name, size, peak) for size, peak in peaks.items()}
            pairs = [(size, one) for size, tried in budgets.items() for one in tried]
            runs = dict(zip(pairs, pool.map(partial(real.fits, name), *zip(*pairs, strict=True)), strict=True))
        middle = sorted(peaks)[len(peaks) // 2]
        room = peaks[middle] // MIB * MIB
        asked = name, json.dumps(budgets), room // MIB
        key = f"{asked} | estimator {code_of('estimator', 'steps')}"
        found = kept("estimated.json", key, partial(child.run, "estimated", *asked, limit="12GiB"))
        times.append(found["seconds"] / found["first_step"])
        hundreds.append(found["hundred"])
        print(f"{name}: estimated in {times[-1]:.1f} first steps, 100 sizes in {hundreds[-1]:.2f} s", file=sys.stderr)
        for size, really in peaks.items():
            for way in ("xla",) if name.endswith("XLA") else _WAYS:  # XLA has a row of its own
                said = found["peak" if way == "xla" else way][str(size)]
                errors[way] += [said / really - 1] if said else []
            answers = list(zip(found["fits"][str(size)], (runs[size, one] for one in budgets[size]), strict=True))
            error = found["peak"][str(size)] / really - 1
            tried = [f"{one / really:.2f} {said and 'fits'} {ran and 'runs'}"
                     for one, (said, ran) in zip(budgets[size], answers, strict=True)]  # fmt: skip
            print(f"{name}, batch {size}: real {really / MIB:.0f} MiB, {error:+.1%}; {tried}", file=sys.stderr)
            verdicts += answers
        if name in _LARGEST:
            really = real.largest(name, room, middle)
            shares.append(found["largest"] / really)
            print(f"{name} in {room / MIB:.0f} MiB: said {found['largest']}, really {really}", file=sys.stderr)
    for way, title in {**_WAYS, "xla": "fitroom.estimate, XLA"}.items():
        if errors[way]:
            yield from _errors(title, errors[way], has_goal=way == "peak")
    yield from _verdicts(verdicts)
    if shares:
        inverse = [1 / share for share in shares]
        too_much = sum(share > 1 for share in shares)
        note = f" we say {statistics.median(shares):.2f} of it; {too_much} of {len(shares)} said too much"
        yield Ratio(
            "largest batch that runs ÷ largest that we say fits",
            statistics.median(inverse),
            *interval(inverse),
            goal=1 / 0.92,
            note=note,
        )
    # A new process starts for it: that comes on top, and is taken off here.
    yield Ratio("estimate ÷ plain first step at the size asked for, at most", max(times), *interval(times), goal=3.0)
    yield Ratio("seconds for 100 sizes, at most", max(hundreds), *interval(hundreds), goal=1.0)


def _real(name: str, size: int) -> int:
    return real.peak(name, size, SETTINGS[name].runs)


def _budgets(name: str, size: int, peak: int) -> list[int]:
    """Budgets at random around the real peak: the same ones for the same peak."""
    generator = random.Random(f"{name} {size}")
    return [int(peak * generator.uniform(0.8, 1.2)) // MIB * MIB for _ in range(_BUDGETS)]


def _errors(title: str, errors: list[float], has_goal: bool) -> Iterator[Ratio]:
    sizes = sorted(abs(error) for error in errors)
    low, high = interval(sizes)
    note = f" of {len(sizes)}; on average {statistics.mean(errors):+.1%}"
    yield Ratio(f"{title}: error, median", statistics.median(sizes), low, high, 0.03 if has_goal else None, note)
    highest = sizes[min(int(0.95 * len(sizes)), len(sizes) - 1)]
    yield Ratio(f"{title}: error, 95th percentile", highest, highest, sizes[-1], 0.08 if has_goal else None)


def _verdicts(verdicts: list[tuple[bool, bool]]) -> Iterator[Ratio]:
    false_fits = sum(said and not ran for said, ran in verdicts)
    missed = sum(ran and not said for said, ran in verdicts)
    share = false_fits / len(verdicts)
    yield Ratio(f"{len(verdicts)} verdicts: said to fit, and did not", share, share, share, goal=0.02)
    share = missed / len(verdicts)
    yield Ratio(f"{len(verdicts)} verdicts: said not to fit, and did", share, share, share)
