"""The first step passes, the second one dies: what has come to stay in between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fitroom.core import Cause
from fitroom.leaks.cause import page
from fitroom.leaks.facts import Facts
from fitroom.leaks.leak import Leak
from fitroom.leaks.places import Place
from fitroom.units import format_bytes

CAUSE = Cause.SECOND_STEP
PAGE = page(
    CAUSE,
    "The first step makes what stays: the optimizer's slots, accumulators, variables of layers, a graph. The second "
    "one has to fit beside them, beside batches that were prepared ahead, and beside outputs of the first that are "
    "still held; another shape (a smaller last batch) makes a second graph.",
    "ResourceExhaustedError in the second or third step, in a step like the first.",
    "a smaller batch, or slices (fitroom run does that by itself); an optimizer with fewer slots (SGD, Adafactor, "
    "Lion); drop outputs before the next step; drop_remainder=True; prefetch less.",
)


class Second(NamedTuple):
    """A step that ran out right after the first ones had passed.

    Attributes:
        place: the line that trains.
        passed: how many steps had passed.
        stays: bytes that came to stay by then, by what they are, in words.
        limit: of the device.
    """

    place: Place | None
    passed: int
    stays: dict[str, int]
    limit: int


def find(facts: Facts) -> Iterator[Leak]:
    """Nothing: it is no growth, and is told by `leak` when a step runs out."""
    yield from ()


def leak(second: Second) -> Leak:
    """What there is to say of it."""
    parts = sorted(second.stays.items(), key=lambda one: -one[1])
    came = ", ".join(f"{what} ({format_bytes(nbytes)})" for what, nbytes in parts if nbytes) or "nothing that was seen"
    steps = "the first step" if second.passed == 1 else f"the first {second.passed} steps"
    return Leak(
        CAUSE,
        second.place,
        f"{steps} passed, the next ran out of memory; what had come to stay by then: {came}",
        "a smaller batch or slices; an optimizer with fewer slots; drop outputs before the next step",
        "fitroom run train.py    # or fitroom.guard(model)",
        sum(second.stays.values()),
        "step",
        0.0,
        on_device=True,
        confidence=0.8,
    )
