"""predict and its relatives, called in a loop for a few samples each."""

from __future__ import annotations

from collections.abc import Iterator

from fitroom.core import Cause
from fitroom.leaks.cause import is_much, page
from fitroom.leaks.facts import Facts
from fitroom.leaks.leak import Leak

CAUSE = Cause.PREDICT_IN_LOOP
PAGE = page(
    CAUSE,
    "predict, evaluate and fit make a data pipeline, an iterator and callbacks for each call, which is much for one "
    "batch, and something of it stays.",
    "the process grows by some KiB with each call, over hundreds of calls; the device does not.",
    "model(x, training=False) or model.predict_on_batch(x) for a batch; one predict for all samples.",
)
_MANY = 100  # calls
_KINDS = ("predict", "evaluate")


def find(facts: Facts) -> Iterator[Leak]:
    """A line that calls predict again and again, while memory rises with each call, and nothing else tells why."""
    rise, on_device = facts.unexplained()
    loop = facts.happened.loop(*_KINDS)
    times = sum(facts.turns_of(kind) for kind in _KINDS)
    counts = [sum(look.kinds[kind] for kind in _KINDS) for look in facts.looks]
    if loop is None or loop[1] < _MANY or not facts.still(counts) or not is_much(rise, times):
        return
    place, count = loop
    kind = next(kind for kind in _KINDS if (kind, place) in facts.happened.calls)
    yield Leak(
        CAUSE,
        place,
        f"{kind} was called here {count} times, and each call leaves memory behind",
        "call the model itself for a batch, or predict once for all samples",
        "model(x, training=False)",
        rise,
        f"call of {kind}",
        rise / times,
        on_device=on_device,
        confidence=0.7,
    )
