"""A tf.function that is traced again and again."""

from __future__ import annotations

from fitroom.core import Advice, Cause
from fitroom.diagnosers import course
from fitroom.diagnosers.cause import Clue, page

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fitroom.diagnosers.facts import Facts

CAUSE = Cause.RETRACING
PAGE = page(
    CAUSE,
    "Each trace of a tf.function is a graph that stays in memory. Python numbers and ever other shapes as arguments, "
    "or a function made in a loop, make a new one each time.",
    "TensorFlow warns: '5 out of the last 5 calls to … triggered tf.function retracing'; the process grows while the "
    "device does not; steps are slow.",
    "make the function once, outside of loops; pass tensors instead of Python numbers; give it an input_signature, or "
    "reduce_retracing=True; pad to some few shapes.",
)


def clues(facts: Facts) -> Iterator[Clue]:
    """TensorFlow's warnings."""
    count = course.retracings(facts)
    if count and facts.resource.is_memory:
        points = 3.0 if facts.on_card else 4.0
        yield Clue(points if count > 1 else points - 0.5, f"TensorFlow warned of retracing {count} times before")


def advice(facts: Facts) -> Iterator[Advice]:
    """One trace."""
    yield Advice(
        "Make the function once, and pass tensors instead of Python numbers",
        "one graph instead of one for each call",
        "@tf.function(reduce_retracing=True)",
    )
    yield Advice(
        "Have few shapes: pad sequences, drop the smaller last batch", "", "dataset.batch(32, drop_remainder=True)"
    )


def futile(facts: Facts) -> Iterator[str]:
    """Nothing that is known."""
    yield from ()
