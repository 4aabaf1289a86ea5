"""Data embedded in a graph, which may hold 2 GB."""

from __future__ import annotations

from fitroom.core import Advice, Cause, Resource
from fitroom.diagnosers.cause import Clue, page

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fitroom.diagnosers.facts import Facts

CAUSE = Cause.PROTO_EMBEDDED_DATA
PAGE = page(
    CAUSE,
    "An array that a graph or tf.function uses becomes a constant in it, and a protocol buffer holds 2 GB at most. So "
    "do arrays in from_tensor_slices in a graph, weights that a function closes over, and layers too large to be "
    "exported.",
    "'larger than 2GB', in ValueError; nothing says RESOURCE_EXHAUSTED. More memory does not help.",
    "pass the data as an argument, feed it, or read it from files; keep weights in variables; make the dataset outside "
    "of the function.",
)


def clues(facts: Facts) -> Iterator[Clue]:
    """The limit itself."""
    if facts.resource is Resource.PROTO_2GB:
        yield Clue(5.0, "a protocol buffer holds 2 GB at most")


def advice(facts: Facts) -> Iterator[Advice]:
    """Arguments, files, variables."""
    yield Advice(
        "Read the data from files, or from a generator, instead of embedding it",
        "the graph then holds none of it",
        "tf.data.Dataset.from_generator(rows, output_signature=…)    # not from_tensor_slices(array)",
    )
    yield Advice(
        "Pass arrays to functions as arguments, and keep weights in variables",
        "",
        "@tf.function\ndef f(x): …    # called as f(x)",
    )


def futile(facts: Facts) -> Iterator[str]:
    """Memory."""
    yield "more memory, or a smaller batch: it is a limit of the file format"
