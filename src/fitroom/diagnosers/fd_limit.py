"""Too many open files."""

from __future__ import annotations

from fitroom.core import Advice, Cause, Resource
from fitroom.diagnosers.cause import Clue, page

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fitroom.diagnosers.facts import Facts

CAUSE = Cause.FD_LIMIT
PAGE = page(
    CAUSE,
    "The process holds as many files, pipes and sockets as it may. Workers of data loaders, interleave over many "
    "files, and files that are never closed use them up.",
    "'Too many open files', as OSError or ResourceExhaustedError.",
    "ulimit -n 4096 before the start; close files (with open(…)); a smaller cycle_length or fewer workers.",
)


def clues(facts: Facts) -> Iterator[Clue]:
    """The words."""
    if facts.resource is Resource.FILE_DESCRIPTORS:
        yield Clue(6.0, "the message says so")


def advice(facts: Facts) -> Iterator[Advice]:
    """Raise, close."""
    yield Advice("Raise the limit", "1024 is usual, 4096 nearly always allowed", "ulimit -n 4096 && python train.py")
    yield Advice(
        "Close files, and read fewer at once",
        "",
        "dataset.interleave(…, cycle_length=16)    # with open(path) as file: …",
    )


def futile(facts: Facts) -> Iterator[str]:
    """Anything about memory."""
    yield "a smaller batch or model: memory is not the matter"
