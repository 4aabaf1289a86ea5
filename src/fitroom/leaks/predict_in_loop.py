"""predict and its relatives, called in a loop for a few samples each."""

from __future__ import annotations

from collections.abc import Iterator

from fitroom.core import Cause
from fitroom.leaks.cause import is_much, page
from fitroom.leaks.facts import Facts
from fitroom.leaks.leak import Leak
from fitroom.units import KIB

CAUSE = Cause.PREDICT_IN_LOOP
PAGE = page(
    CAUSE,
    "predict, evaluate and fit make a data pipeline, an iterator and callbacks for each call, which is much for one "
    "batch, and something of it stays.",
    "the process grows by some KiB with each call, over hundreds of calls; the device does not.",
    "model(x, training=False) or model.predict_on_batch(x) for a batch; one predict for all samples.",
)
MANY = 100  # calls
_MOST_EACH = 512 * KIB  # a pipeline, an iterator, callbacks: what is more is something else's
KINDS = ("predict", "evaluate")


def find(facts: Facts) -> Iterator[Leak]:
    """A line that calls predict again and again, while memory rises with each call, and nothing else tells why."""
    rise, on_device = facts.unexplained()
    loop = facts.happened.loop(*KINDS)
    times = sum(facts.turns_of(kind) for kind in KINDS)
    counts = [sum(look.kinds[kind] for kind in KINDS) for look in facts.looks]
    if loop is None or loop[1] < MANY or not facts.still(counts):
        return
    if not is_much(rise, times) or rise > _MOST_EACH * times:
        return
    place, count = loop
    kind = next(kind for kind in KINDS if (kind, place) in facts.happened.calls)
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
