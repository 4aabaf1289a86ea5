"""Results that are kept: arrays, weights, logs in a list that nobody empties."""

from __future__ import annotations

from collections.abc import Iterator

from fitroom.core import Cause
from fitroom.leaks.cause import page
from fitroom.leaks.facts import Facts
from fitroom.leaks.happenings import TRAINING
from fitroom.leaks.leak import Leak
from fitroom.leaks.sizes import AROUND_A_TENSOR
from fitroom.units import MIB

CAUSE = Cause.GROWING_HISTORY
PAGE = page(
    CAUSE,
    "A list, a dictionary or an array of the script's own takes something with each step and never loses it: arrays of "
    "predictions, copies of weights, batches, logs.",
    "the process grows by the same amount with each step or epoch, the device does not; one container of the script's "
    "is longer each time.",
    "keep what is needed (a mean, the best weights), write the rest to a file, or keep the last few in a "
    "collections.deque(maxlen=100).",
)
_LEAST = 1 * MIB  # a history of numbers never comes to that
_LEAST_EACH = 256  # bytes


def find(facts: Facts) -> Iterator[Leak]:
    """Containers of the user's that hold ever more arrays or objects, in a training."""
    trains = any(facts.turns_of(kind) for kind in (*TRAINING, "fit", "call of a function"))
    for held in facts.held:
        tensors = held.size.tensors + AROUND_A_TENSOR * held.size.pieces
        if held.size.models or tensors >= held.size.other // 2 or held.size.total < _LEAST or not trains:
            continue
        kind, each = held.each()
        if held.grown and held.size.total / held.grown < _LEAST_EACH:
            continue
        few = (
            f"{held.short_name}.pop(next(iter({held.short_name})))    # the oldest, when there are enough"
            if held.is_mapping
            else f"{held.short_name} = collections.deque(maxlen=100)"
        )
        yield Leak(
            CAUSE,
            held.lines[0] if held.lines else None,
            str(held),
            "keep what is needed, write the rest to a file, or keep the last few",
            few,
            held.size.total,
            kind,
            each,
            held.lines[1:3],
        )
