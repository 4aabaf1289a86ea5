"""What a training waits for, by its figures."""

from __future__ import annotations

import pytest

from fitroom.devices.waiting import Figures, Pipeline, verdict
from fitroom.units import MIB

SLOW_MAP = Pipeline("ParallelMap", 0.08, 0.97, workers=1, is_ahead=True)
PYTHON = Pipeline("Generator", 0.08, 0.97, is_python=True, is_ahead=True)
TUNED = Pipeline("ParallelMap", 0.08, 0.9, workers=7, is_tuned=True, is_ahead=True)
INLINE = Pipeline("Map", 0.04, 0.9)
PY_MAP = Pipeline("MapAndBatch", 0.08, 0.97, is_python=True, is_ahead=True)
PY_MAP_TUNED = Pipeline("MapAndBatch", 0.08, 0.97, is_tuned=True, is_python=True, is_ahead=True)
RECORDS = Pipeline("TFRecord", 0.1, 0.9, is_ahead=True)
RECORDS_TUNED = Pipeline("TFRecord", 0.1, 0.9, is_tuned=True, is_ahead=True)
THREADS = Pipeline("Generator", 0.0, 1.0, is_python=True, is_ahead=True)


@pytest.mark.parametrize(
    ("figures", "what", "words"),
    [
        (Figures(0.6, 0.02, SLOW_MAP, cpu=1.2, cores=8), "map", "num_parallel_calls"),
        (Figures(0.6, 0.02, PYTHON, cpu=1.0, cores=8), "one worker", "use_multiprocessing"),
        (Figures(0.45, 0.05, INLINE, cpu=1.0, cores=8), "no prefetch", "prefetch(tf.data.AUTOTUNE)"),
        (Figures(0.6, 0.02, SLOW_MAP, read=90 * MIB, stalled=0.7, cores=8), "disk", "larger files"),
        (Figures(0.6, 0.02, PYTHON, read=90 * MIB, stalled=0.7, cores=8), "disk", "90 MiB a second"),
        (Figures(0.6, 0.02, SLOW_MAP, cpu=0.6, cores=8, read=300 * MIB, stalled=0.02), "disk", "300 MiB a second"),
        (Figures(0.6, 0.02, SLOW_MAP, cpu=7.9, cores=8, read=300 * MIB, stalled=0.02), "map", "num_parallel_calls"),
        (Figures(0.6, 0.02, SLOW_MAP, cpu=0.3, cores=8, received=40 * MIB), "network", "40 MiB a second"),
        (Figures(0.6, 0.02, TUNED, cpu=7.6, cores=8), "cores", "7.6 of 8 cores are busy"),
        (Figures(0.6, 0.02, TUNED, cpu=2.0, cores=8), "map", "cache()"),
        (Figures(0.6, 0.02, RECORDS, cores=8), "reading", "90% of that in TFRecord, one file after the other"),
        (Figures(0.6, 0.02, RECORDS_TUNED, cores=8), "input", "90% of that in TFRecord"),
        (Figures(0.6, 0.02, RECORDS_TUNED, cpu=7.8, cores=8), "cores", "7.8 of 8 cores are busy"),
        (Figures(0.6, 0.02, PY_MAP_TUNED, cpu=1.1, cores=8), "one worker", "TensorFlow's own operations"),
        (Figures(0.6, 0.02, PY_MAP, cpu=1.0, cores=8), "one worker", "one call runs at a time"),  # it computes
        (Figures(0.6, 0.02, PY_MAP, cpu=0.1, cores=8), "map", "num_parallel_calls"),  # it waits for something
        (Figures(0.6, 0.02, THREADS, cpu=1.0, cores=8), "one worker", "batches are made by Python code"),
        (Figures(0.6, 0.02, SLOW_MAP, cpu=0.1, cores=8, read=MIB, stalled=0.8), "disk", "1 MiB a second"),  # it seeks
        (Figures(0.6, 0.02, None), "input", "prefetch"),
        (Figures(0.02, 0.05, None, cpu=1.05, cores=8, gpu=0.2), "one core", "steps_per_execution"),
    ],
)
def test_what_is_short_is_named_with_its_figures_and_what_to_do(figures: Figures, what: str, words: str) -> None:
    found = verdict(figures)
    assert found is not None
    assert found.what == what
    assert words in f"{found.evidence} {found.advice}"


@pytest.mark.parametrize(
    "figures",
    [
        Figures(0.05, 0.1, SLOW_MAP, cpu=8.0, cores=8),
        Figures(0.0, 0.1, None, read=900 * MIB, stalled=0.9, received=900 * MIB),
        Figures(0.4, 0.1, INLINE, gpu=0.97),  # what the host does then happens beside the GPU's work
        Figures(0.02, 0.05, cpu=1.0, cores=8),  # small steps on a CPU
        Figures(0.02, 0.05, cpu=1.0, cores=8, gpu=0.9),
        Figures(0.02, 0.05, cpu=6.0, cores=8, gpu=0.3),
    ],
)
def test_who_computes_is_not_accused(figures: Figures) -> None:
    assert verdict(figures) is None


def test_a_disk_that_others_keep_busy_is_not_blamed() -> None:
    found = verdict(Figures(0.6, 0.02, SLOW_MAP, cpu=1.2, cores=8, read=100.0, stalled=0.9))
    assert found is not None
    assert found.what == "map"
