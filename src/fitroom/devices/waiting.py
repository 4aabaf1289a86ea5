"""What a training waits for: figures in, a verdict with its evidence out. Pure.

A verdict needs a training that waits for its next batch for a good part of its time; whoever computes all the time is
not accused. Then what is scarce is asked for, from the outside in: the network, the disk, Python code that makes one
batch after the other, a pipeline that stands still while a step computes, and the stage that takes the longest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from fitroom.units import MIB, format_bytes

ENOUGH = 0.15  # of the time spent waiting: with less there is little to win
_BUSY = 0.85  # of a GPU: whatever waits, it is not the GPU
_STALLED = 0.15  # of the time that somebody waited for a disk
_MUCH = 96 * MIB  # a second, from a disk: what a plain one gives
_READS = 4 * MIB  # a second, from a disk or the network: less is not what takes the time
_SMALL = MIB / 4  # a second, from a disk that is waited for all the time: small reads all over it
_READERS = ("TFRecord", "TextLine", "FixedLengthRecord", "Interleave")  # stages that read files


@dataclass(frozen=True)
class Pipeline:
    """What `tf.data` tells of an input pipeline.

    Attributes:
        slowest: the stage that takes the longest, by TensorFlow's name.
        seconds: what all stages took for a batch, where several work at once divided by how many; 0 where that does
            not show.
        share: the slowest stage's part of that.
        workers: how many work at the slowest stage at once.
        is_tuned: whether TensorFlow chooses that number.
        is_python: whether the slowest stage is Python code (a generator, a PyDataset, a py_function).
        is_ahead: whether batches are made while a step computes.
        empty: how often nothing was ready when it was looked at, 0 to 1; None where that does not show.
    """

    slowest: str
    seconds: float
    share: float
    workers: int = 1
    is_tuned: bool = False
    is_python: bool = False
    is_ahead: bool = False
    empty: float | None = None


class Figures(NamedTuple):
    """A stretch of a training.

    Attributes:
        waited: how much of the time it waited for its next batch, 0 to 1.
        step: seconds that a step computes.
        pipeline: what is known of where batches come from.
        cpu: cores in use by it; None where nobody tells, as below.
        cores: cores there are.
        read: bytes a second from a disk.
        received: bytes a second from the network.
        stalled: how much of the time somebody on the machine waited for a disk.
        gpu: how much of the time the GPU computed.
    """

    waited: float
    step: float = 0.0
    pipeline: Pipeline | None = None
    cpu: float | None = None
    cores: float = 1.0
    read: float | None = None
    received: float | None = None
    stalled: float | None = None
    gpu: float | None = None


@dataclass(frozen=True)
class Waiting:
    """What a training waits for.

    Attributes:
        what: `network`, `disk`, `one worker`, `no prefetch`, `map`, `reading`, `cores`, `input` or `one core`.
        share: how much of its time it waits.
        evidence: the figures that say so.
        advice: what to do.
    """

    what: str
    share: float
    evidence: str
    advice: str


def verdict(figures: Figures) -> Waiting | None:
    """What a training waits for; None where it computes."""
    if figures.gpu is not None and figures.gpu >= _BUSY:
        return None
    if figures.waited < ENOUGH:
        return _between_steps(figures)
    what, evidence, advice = _reason(figures)
    return Waiting(what, figures.waited, f"{figures.waited:.0%} of the time no batch was ready; {evidence}", advice)


def _between_steps(figures: Figures) -> Waiting | None:
    """A GPU that idles though batches are there: one core of Python cannot keep up with it."""
    if figures.gpu is None or figures.gpu > 0.5 or figures.cpu is None:
        return None
    if not (0.8 <= figures.cpu <= 1.3 and figures.cores >= 2):
        return None
    evidence = (
        f"the GPU computes {figures.gpu:.0%} of the time, one of {figures.cores:g} cores is busy, batches are ready"
    )
    advice = "larger batches, compile(steps_per_execution=16), fewer callbacks per batch; mixed precision will not help"
    return Waiting("one core", 1 - figures.gpu, evidence, advice)


def _reason(figures: Figures) -> tuple[str, str, str]:
    pipeline = figures.pipeline
    is_idle = figures.cpu is None or figures.cpu < 0.75 * figures.cores
    read, received = figures.read or 0.0, figures.received or 0.0
    if received >= _READS and received > 2 * read and is_idle:
        return (
            "network",
            f"{format_bytes(int(received))} a second come over the network",
            "copy the data to a local disk once, or tf.data's cache(file); interleave over several files "
            "(num_parallel_calls=tf.data.AUTOTUNE). More cores or mixed precision will not help",
        )
    stalled = min(figures.stalled or 0.0, 1.0)
    is_seeking = stalled >= 0.5 and read >= _SMALL and is_idle
    if (stalled >= _STALLED and read >= _READS) or (read >= _MUCH and is_idle) or is_seeking:
        return (
            "disk",
            f"{format_bytes(int(read))} a second are read from disk; somebody waits for one {stalled:.0%} of the time",
            "fewer and larger files (TFRecord), smaller or compressed samples, cache() if they fit into memory, a "
            "local SSD; several reads at once (interleave, num_parallel_calls), prefetch(). More cores or mixed "
            "precision will not help",
        )
    if pipeline is None:
        return "input", "where batches come from does not show", "prefetch(tf.data.AUTOTUNE) at the pipeline's end"
    took = f"a batch takes {_ms(pipeline.seconds)} to make" if pipeline.seconds else "batches are made"
    is_map = "Map" in pipeline.slowest and "Flat" not in pipeline.slowest
    is_parallel = pipeline.workers > 1 or pipeline.is_tuned
    busy = "" if figures.cpu is None else f", {figures.cpu:.1f} of {figures.cores:g} cores are busy"
    if pipeline.is_python and pipeline.share >= 0.5 and not is_map:
        return (
            "one worker",
            f"{took}{',' if pipeline.seconds else ''} by Python code, one after the other{busy}",
            "PyDataset(workers=4, use_multiprocessing=True) with max_queue_size=16; or tf.data with map(…, "
            "num_parallel_calls=tf.data.AUTOTUNE). Mixed precision will not help",
        )
    if not pipeline.is_ahead and (pipeline.seconds <= 1.2 * figures.step or pipeline.share < 0.5):
        return (
            "no prefetch",
            f"{took}, a step {_ms(figures.step)}, one after the other: while a step computes, no batch is made",
            "prefetch(tf.data.AUTOTUNE) at the pipeline's end",
        )
    inside = f"{took}, {pipeline.share:.0%} of that in {pipeline.slowest}"
    ahead = "" if pipeline.is_ahead else ", and prefetch(tf.data.AUTOTUNE) at the end"
    if is_map and pipeline.is_python and (is_parallel or _is_one_core(figures)):
        return (
            "one worker",
            f"{inside}, by Python code, of which one call runs at a time{busy}",
            "TensorFlow's own operations in place of py_function and numpy_function, or PyDataset(workers=4, "
            f"use_multiprocessing=True){ahead}; cache() behind it if the results fit into memory. Mixed precision "
            "will not help",
        )
    if is_map and not is_parallel:
        return (
            "map",
            f"{inside}, which works on one element at a time",
            f"map(…, num_parallel_calls=tf.data.AUTOTUNE){ahead}; cache() behind it if the results fit into memory. "
            "Mixed precision will not help",
        )
    if pipeline.slowest.startswith(_READERS) and not is_parallel:
        return (
            "reading",
            f"{inside}, one file after the other{busy}",
            f"interleave(…, num_parallel_calls=tf.data.AUTOTUNE) over several files{ahead}; records that are not "
            "compressed; cache() behind it if they fit into memory. Mixed precision will not help",
        )
    if not is_idle:
        return (
            "cores",
            f"{inside}, and {figures.cpu or 0:.1f} of {figures.cores:g} cores are busy",
            "do less per sample, or do it once and cache() it; resize and decode ahead of the training; more cores",
        )
    if is_map:
        return "map", inside, "do less per sample there, or cache() behind it; map whole batches instead of samples"
    return "input", inside, "prefetch(tf.data.AUTOTUNE) at the pipeline's end, interleave over files, cache() behind it"


def _is_one_core(figures: Figures) -> bool:
    """Whether somebody computes, rather than waits: then Python's threads do not help."""
    return figures.cpu is not None and figures.cpu >= 0.8


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.1f} ms"
