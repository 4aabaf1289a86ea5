"""The disk, or its quota, is full."""

from __future__ import annotations

from fitroom.core import Advice, Cause, Resource
from fitroom.diagnosers.cause import Clue, page
from fitroom.patterns import Pattern

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fitroom.diagnosers.facts import Facts

CAUSE = Cause.DISK_FULL
PAGE = page(
    CAUSE,
    "A file could not be written. TensorFlow calls it ResourceExhaustedError, and hangs its out-of-memory hint on.",
    "'No space left on device' or 'Disk quota exceeded', with a path before it.",
    "free room, or write caches, checkpoints and summaries elsewhere; keep the last checkpoints only; save seldom.",
)
_PATH = Pattern(
    r"(/[\w./\-]{3,200}|[A-Za-z]:\\[\w\\.\-]{3,200})['\"]?(?=[;:,\s][^\n]{0,80}(?:No space|quota))"
    r"|(?<=: ')([^'\n]{3,200})(?=')"
)


def clues(facts: Facts) -> Iterator[Clue]:
    """The words."""
    if facts.resource is Resource.DISK:
        yield Clue(6.0, "the message says so")


def advice(facts: Facts) -> Iterator[Advice]:
    """Room, or another place."""
    match = _PATH.search(facts.words)
    where = next(filter(None, match.groups())) if match else None
    folder = where.rpartition("/")[0] or "." if where else "."
    yield Advice(
        f"Free room on the disk{f' that holds {folder}' if where else ''}",
        "",
        f"df -h {folder}; du -xsh {folder}/* | sort -h",
    )
    if where and ("cache" in where or "tempstate" in where):
        yield Advice(
            "Cache elsewhere, or not in full",
            "the cache takes as much as the decoded data",
            "dataset.cache('/big/disk/cache')",
        )
    else:
        yield Advice("Keep the last checkpoints only", "", "tf.train.CheckpointManager(…, max_to_keep=2)")


def futile(facts: Facts) -> Iterator[str]:
    """Anything about memory."""
    yield "a smaller batch or model: memory is not the matter, whatever the hint says"
