"""Tensors that are kept: a list of losses, of outputs, of batches."""

from __future__ import annotations

from collections.abc import Iterator

from fitroom.core import Cause
from fitroom.leaks.cause import LEAST, page
from fitroom.leaks.facts import Facts
from fitroom.leaks.leak import Leak
from fitroom.leaks.sizes import AROUND_A_TENSOR

CAUSE = Cause.RETAINED_TENSORS
PAGE = page(
    CAUSE,
    "A tensor that is put into a list, a dictionary or an attribute stays on its device as long as that does: a loss "
    "kept for a plot, outputs kept for a metric, batches kept for later.",
    "the device's bytes in use and the number of live tensors rise by the same amount with each step; nothing that a "
    "collection of garbage gives back.",
    "keep numbers: float(loss) or loss.numpy(); add up in a keras.metrics.Mean; empty the list at the end of an epoch; "
    "keep the last few in a collections.deque(maxlen=100).",
)
_FEW = 8  # tensors


def find(facts: Facts) -> Iterator[Leak]:
    """Containers and variables of the user's that hold ever more tensors."""
    for held in facts.held:
        if held.size.models or held.size.tensors + AROUND_A_TENSOR * held.size.pieces < max(
            held.size.other // 2, LEAST
        ):
            continue
        if held.length and held.size.pieces < _FEW:
            continue
        kind, each = held.each()
        number = (
            f"{held.short_name}[step] = float(loss)" if held.is_mapping else f"{held.short_name}.append(float(loss))"
        )
        yield Leak(
            CAUSE,
            held.lines[0] if held.lines else None,
            str(held),
            "keep numbers, not tensors, or empty it now and then",
            f"{number}    # or .numpy()",
            held.size.total,
            kind,
            each,
            held.lines[1:3],
            on_device=True,
        )
