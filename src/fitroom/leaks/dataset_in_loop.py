"""Datasets that are made in a loop."""

from __future__ import annotations

from collections.abc import Iterator

from fitroom.core import Cause
from fitroom.leaks.cause import is_much, page, repeated
from fitroom.leaks.facts import Facts
from fitroom.leaks.leak import Leak

CAUSE = Cause.DATASET_IN_LOOP
PAGE = page(
    CAUSE,
    "Each tf.data pipeline has functions that are traced and registered. Those of from_generator, py_function and "
    "numpy_function are never given back, with whatever their Python functions refer to.",
    "the process grows with each epoch or turn in which the pipeline is made anew; Python's objects become more.",
    "make the dataset once, before the loop, and go through it again; have the generator take what changes from a "
    "variable instead of closing over it.",
)


def find(facts: Facts) -> Iterator[Leak]:
    """A line that makes datasets, while memory rises with each."""
    rise, on_device = facts.unexplained()
    found = repeated(facts, "generator") or repeated(facts, "dataset")
    if found is None or not is_much(rise, found[2]):
        return
    made, total, times = found
    yield Leak(
        CAUSE,
        made.place,
        f"a dataset was made here {total} times, and each leaves memory behind",
        "make it once, before the loop",
        "",
        rise,
        "dataset",
        rise / times,
        made.also,
        on_device=on_device,
        confidence=0.8,
    )
