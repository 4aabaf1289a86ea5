"""Real steps of the zoo's settings on a pocket device of any size: peaks, whether they run, the largest that does.

Each run is a process of its own, forked from one that has imported TensorFlow and not started it yet. What comes out
depends on TensorFlow alone, not on us, so it is kept: an estimate is compared with the same real runs again and again.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import statistics
from importlib.metadata import version
from typing import Any

from bench.keeping import kept, processor
from fitroom.devices import pocket
from fitroom.units import MIB

_STEPS = 4
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tensorflow", "keras", "bench.zoo", "fitroom.estimator.samples"])


def peak(name: str, batch: int, runs: int) -> int:
    """The peak of some steps at this size, the median of several runs."""
    peaks = [_peak(name, batch, 12 * 1024, turn) for turn in range(runs)]
    return int(statistics.median(one for one in peaks if one is not None))


def fits(name: str, batch: int, budget: int) -> bool:
    """Whether steps of this size run in a budget."""
    return _peak(name, batch, budget // MIB, 0) is not None


def largest(name: str, budget: int, guess: int) -> int:
    """The largest batch that runs in a budget, to two percent."""
    low, high = 0, guess
    while fits(name, high, budget):
        low, high = high, max(high + 1, round(1.2 * high))
    while high - low > max(1, 0.02 * high):
        middle = (low + high) // 2 if low else max(round(high / 1.2), 1)
        low, high = (middle, high) if fits(name, middle, budget) else (low, middle)
    return low


def _peak(name: str, batch: int, mib: int, turn: int) -> int | None:
    where = f"TensorFlow {version('tensorflow-cpu')} | {processor()}"
    key = f"peak | {name} | batch {batch} | {mib} MiB | run {turn} | {where}"
    return kept("real.json", key, lambda: _run(name, batch, mib))


def _run(name: str, batch: int, mib: int) -> int | None:
    """The peak of one run; None where it ran out, or crashed of it."""
    os.environ.update(_QUIET)  # for the process that forks
    ours, its = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_steps, args=(name, batch, mib, its))
    process.start()
    its.close()
    found: int | None = None
    with contextlib.suppress(EOFError):  # some kernels do not look whether they got memory, and crash
        found = ours.recv()
    process.join()
    if process.exitcode == 1:
        raise RuntimeError(f"{name} at batch {batch} failed of something else than memory")
    return found


def _steps(name: str, batch: int, mib: int, answer: Any) -> None:
    os.environ.update({**_QUIET, **pocket.environment(f"{mib}MiB")})
    import tensorflow as tf

    from bench.child import fit, sample_of
    from bench.zoo import SETTINGS

    try:
        model = SETTINGS[name].build()
        sample = sample_of(model)
        pocket.reset_peak()
        fit(model, sample, [batch] * _STEPS)
        answer.send(pocket.use().peak)
    except tf.errors.ResourceExhaustedError:
        answer.send(None)
    answer.close()
    os._exit(0)  # TensorFlow takes its time to go
