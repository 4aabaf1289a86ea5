"""Plans: what remedies take against what was predicted, how much more fits, whether the choice was the best one."""

from __future__ import annotations

import functools
import itertools
import statistics
import sys
from collections.abc import Iterator
from typing import Any

from bench import child, real
from bench.keeping import code_of, kept
from bench.measure import Ratio, interval
from bench.zoo import SETTINGS
from fitroom.units import MIB

# Settings of the zoo, each with the batch at which it is looked at.
_MODELS = {
    "U-Net": 41, "transformer": 47, "ViT": 71, "LSTM + Embedding": 131, "autoencoder": 71,
    "own train_step": 71, "Conv3D": 25, "MobileNetV2": 47, "GRU": 131, "U-Net, SGD": 71,
}  # fmt: skip
_CUT = ("micro_batch=4", "recompute", "micro_batch=4, recompute")
_TURNED = ("mixed_precision=bfloat16", "lean_optimizer=adafactor", "mixed_precision=bfloat16, lean_optimizer=adafactor")
_BOTH = ("micro_batch=4, mixed_precision=bfloat16", "recompute, lean_optimizer=adafactor")
_SHARE = 0.6  # of the plain peak: the budget that a plan is chosen for


def _done(what: str, *arguments: object, limit: str) -> dict[str, Any]:
    """A measurement in a process of its own; kept, as long as what it measures stays the same."""
    code = code_of("core", "estimator", "planner.py", "remedies", "steps", "training")
    key = f"{what} {arguments} in {limit} | {code}"
    found: dict[str, Any] = kept("planned.json", key, lambda: child.run(what, *arguments, limit=limit))
    return found


def run() -> Iterator[Ratio]:
    yield from _predicted()
    yield from _capacity()
    yield from _choice()
    yield from _rescue()


def _predicted() -> Iterator[Ratio]:
    """What was measured with each remedy, and pair of them, ÷ what was predicted, or the other way round."""
    for plan in (*_CUT, *_TURNED, *_BOTH):
        errors = []
        for name, batch in [("MLP", 1024), *itertools.islice(_MODELS.items(), 7)]:
            found = _done("remedied", name, batch, plan, limit="12GiB")
            if "refused" in found:
                print(f"{plan}, {name}: {found['refused']}", file=sys.stderr)
                continue
            errors.append(found["predicted"] / found["measured"] - 1)
            print(f"{plan}, {name}: {found['measured'] / MIB:.0f} MiB, {errors[-1]:+.1%}", file=sys.stderr)
        sizes = [abs(error) for error in errors]
        note = f" of {len(sizes)} models; the worst {max(sizes):.2f}; on average {statistics.mean(errors):+.1%}"
        yield Ratio(f"{plan}: error of the predicted peak", statistics.median(sizes), *interval(sizes), 0.08, note)


def _capacity() -> Iterator[Ratio]:
    """The largest batch that trains in a budget, plain ÷ ours with what keeps the math: the smaller, the better."""
    for name, goal in (("CNN without BatchNormalization", 10), ("transformer", 10), ("ResNet50", 3)):
        setting = "own train_step" if name.startswith("CNN") else name  # whose data are small beside its activations
        middle = sorted(SETTINGS[setting].sizes)[1]
        budget = real.peak(setting, middle, 3) // MIB * MIB
        plain = real.largest(setting, budget, middle)
        ours = 0
        for times in (goal / 2, goal, 1.5 * goal):
            batch = round(plain * times)
            done = _done("guarded_run", setting, batch, 2, limit=f"{budget // MIB}MiB")
            print(
                f"{name} at {batch}, {times:g} times plain's {plain}, in {budget // MIB} MiB: {done}", file=sys.stderr
            )
            if "error" in done:
                break
            ours = batch
        note = f" {ours} ÷ {plain} in {budget // MIB} MiB, at least {goal} times wanted"
        yield Ratio(f"{name}, capacity: plain ÷ ours", *[plain / max(ours, 1)] * 3, goal=1 / goal, note=note)


def _choice() -> Iterator[Ratio]:
    """The step time of the plan ÷ that of the best of a grid of slices, recomputation and XLA, all measured."""
    ratios = []
    for name, batch in _MODELS.items():
        budget = int(real.peak(name, batch, 3) * _SHARE) // MIB
        chosen = _done("planned", name, batch, f"{budget}MiB", limit="12GiB")
        grid = ["micro_batch=2", "micro_batch=4", "micro_batch=8", "recompute", "micro_batch=2, recompute"]
        grid += ["xla=on", "micro_batch=4, xla=on"]
        times = {}
        for plan in dict.fromkeys([chosen["plan"], *grid]):
            done = _done("guarded_run", name, batch, 5, plan, limit=f"{budget}MiB")
            if done.get("ooms") == 0:
                times[plan] = done["seconds"]
        best = min(times, key=lambda plan: times[plan]) if times else ""
        print(f"{name} at {batch} in {budget} MiB: chosen {chosen['plan']}, best {best} of {times}", file=sys.stderr)
        ratios.append(times[chosen["plan"]] / times[best] if chosen["plan"] in times else float("inf"))
    within = sum(ratio <= 1.1 for ratio in ratios)
    note = f" {within} of {len(ratios)} within 1.10"
    yield Ratio("step time: chosen ÷ best of the grid, 8th of 10", sorted(ratios)[int(0.8 * len(ratios)) - 1],
                min(ratios), max(ratios), goal=1.1, note=note)  # fmt: skip


def _rescue() -> Iterator[Ratio]:
    """Trainings that do not fit: in how many of them a step ran out nevertheless."""
    ran_out = []
    for name, batch in itertools.islice(_MODELS.items(), 5):
        budget = int(real.peak(name, batch, 3) * _SHARE) // MIB
        done = _done("guarded_run", name, batch, 3, limit=f"{budget}MiB")
        print(f"{name} at {batch} in {budget} MiB: {done}", file=sys.stderr)
        ran_out.append(done.get("ooms", 9))
    for name in child.SEEDS:
        code = code_of("core", "estimator", "planner.py", "remedies", "steps", "training", "supervisor")
        ran_out.append(kept("planned.json", f"seed {name} | {code}", functools.partial(child.seed, name)))
        print(f"{name}: ran out {ran_out[-1]} times", file=sys.stderr)
    share = sum(count > 0 for count in ran_out) / len(ran_out)
    yield Ratio(f"{len(ran_out)} rescues: share in which a step ran out", *[share] * 3, goal=0.1)
