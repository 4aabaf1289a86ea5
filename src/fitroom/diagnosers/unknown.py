"""Nothing in the words tells why."""

from __future__ import annotations

from fitroom.core import Advice, Cause, Resource
from fitroom.diagnosers.cause import Clue, page

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fitroom.diagnosers.facts import Facts

CAUSE = Cause.UNKNOWN
PAGE = page(
    CAUSE,
    "Something ran out, or looks like it, and what is there of the log fits several causes.",
    "no tensor, no operation and no statistics are named.",
    "keep the whole log (2>&1 | tee train.log): TensorFlow writes its allocator's dump to standard error, unless "
    "TF_CPP_MIN_LOG_LEVEL hides it. Or run it under fitroom run, which takes down what is needed.",
)


def clues(facts: Facts) -> Iterator[Clue]:
    """Always a little, so that a mere guess does not win."""
    yield Clue(0.9, "")


def advice(facts: Facts) -> Iterator[Advice]:
    """See more."""
    if facts.resource is not Resource.NOT_EXHAUSTION:
        code = "TF_CPP_MIN_LOG_LEVEL=0 python train.py 2>&1 | tee train.log; fitroom diagnose train.log"
        yield Advice("Keep the whole log, and diagnose that", "the allocator's dump tells what held the memory", code)
        yield Advice("Or run it guarded", "survives running out, and records why", "fitroom run train.py")


def futile(facts: Facts) -> Iterator[str]:
    """Nothing that is known."""
    yield from ()
