"""A message that is larger than its channel allows."""

from __future__ import annotations

from fitroom.core import Advice, Cause, Resource
from fitroom.diagnosers.cause import Clue, page
from fitroom.units import format_bytes

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fitroom.diagnosers.facts import Facts

CAUSE = Cause.MESSAGE_LIMIT
PAGE = page(
    CAUSE,
    "gRPC refuses messages above a limit, 4 MiB unless told otherwise, and calls it RESOURCE_EXHAUSTED.",
    "'Received message larger than max (N vs. M)'.",
    "send less at a time, or raise max_receive_message_length and max_send_message_length on both sides.",
)


def clues(facts: Facts) -> Iterator[Clue]:
    """The words."""
    if facts.resource is Resource.MESSAGE_SIZE:
        yield Clue(6.0, "the message says so")


def advice(facts: Facts) -> Iterator[Advice]:
    """Smaller, or a larger limit."""
    sizes = f"{format_bytes(facts.wanted)} against {format_bytes(facts.limit)}" if facts.wanted and facts.limit else ""
    room = 1 << max(22, (facts.wanted or 1 << 26).bit_length())
    yield Advice("Send less at a time: fewer rows, smaller images", sizes)
    yield Advice("Raise the limit on both sides", "", f"options=[('grpc.max_receive_message_length', {room})]")


def futile(facts: Facts) -> Iterator[str]:
    """Anything about memory."""
    yield "a smaller model or a larger machine: memory is not the matter"
