"""XLA, which compiles for one device, was asked for on several. Nothing ran out."""

from __future__ import annotations

from fitroom.core import Advice, Cause
from fitroom.diagnosers import misuse
from fitroom.diagnosers.cause import Clue, page

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fitroom.diagnosers.facts import Facts

CAUSE = Cause.XLA_OVER_REPLICAS
PAGE = page(
    CAUSE,
    "With jit_compile=True Keras has XLA compile the whole step, with all replicas in it. XLA compiles for one device, "
    "finds the variables of the other replicas on devices that it cannot reach, and gives up.",
    "'Trying to access resource …/replica_1/… located in device GPU:1 from device GPU:0', as InvalidArgumentError, in "
    "the first step. Memory has no part in it.",
    "model.compile(…, jit_compile=False), which is what Keras chooses by itself under a strategy. fitroom run and "
    "fitroom.guard switch it off, and say so.",
)


def clues(facts: Facts) -> Iterator[Clue]:
    """XLA's own words."""
    if facts.misuse == misuse.XLA_OVER_REPLICAS:
        yield Clue(6.0, "the compiled step runs on one device, and asks for a variable that lies on another replica's")


def advice(facts: Facts) -> Iterator[Advice]:
    """Without XLA."""
    yield Advice("Train without XLA", "the same result", "model.compile(…, jit_compile=False)")
    yield Advice("Or leave the script as it is: Fitroom switches XLA off there", "", "fitroom run train.py")


def futile(facts: Facts) -> Iterator[str]:
    """Memory."""
    if facts.misuse:
        yield "a smaller batch, or more memory: nothing ran out"
