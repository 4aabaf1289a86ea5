"""Somebody else has the card."""

from __future__ import annotations

import re

from fitroom.core import Advice, Cause, Resource
from fitroom.diagnosers import cards, ops, story
from fitroom.diagnosers.cause import Clue, page, said
from fitroom.patterns import Pattern
from fitroom.units import GIB, format_bytes

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fitroom.diagnosers.facts import Facts

CAUSE = Cause.OTHER_PROCESS
PAGE = page(
    CAUSE,
    "A GPU's memory is shared by all processes on it, and TensorFlow takes nearly all of it when it starts. A notebook "
    "whose kernel still runs, a second training, a crashed process that did not end: the next one gets the rest.",
    "the limit in the allocator's statistics is far smaller than the card; 'Created device … with 300 MB memory'; free "
    "memory is a small part of total memory at the start; CUDA or its libraries cannot even be initialised; it ran "
    "yesterday.",
    "nvidia-smi shows who it is: end that process, or restart the notebook's kernel. Where two have to share the card, "
    "give each a limit of its own: fitroom run --budget 4GiB train.py.",
)
_CANNOT_START = Pattern(r"failed initializing StreamExecutor|Failed to create session")
_SAID = Pattern(
    r"\b(?:another|other|two|second|concurrent)\s+(?:\w+\s+){0,2}"
    r"(?:process(?:es)?|programs?|notebooks?|sessions?|jobs?|runs|clients|workloads?|trainings?|scripts)\b"
    r"|\b(?:GPU|card|memory) contention\b|\bkill(?:ing)? (?:the|that|some|all|other) (?:\w+ )?process(?:es)?\b"
    r"|\b(?:GPU|card) is (?:already |being )?(?:used|occupied|shared|taken)\b|其他(?:进程|程序)|多个\w{0,12}程序|杀死",
    re.IGNORECASE,
)


def clues(facts: Facts) -> Iterator[Clue]:
    """A limit far below the card, little free at the start, other processes that are listed, CUDA that cannot start."""
    if facts.resource is not Resource.GPU_MEMORY:
        return
    arena, started = facts.arena, story.free_at_start(facts)
    if started and started[0] < 0.6 * started[1]:
        yield Clue(5.0, f"only {format_bytes(started[0])} of {format_bytes(started[1])} were free at the start")
    limit = (arena.limit if arena else None) or story.card(facts)
    if limit and limit < GIB and not story.setting(facts) and facts.face != "torch-cuda":
        yield Clue(5.0, f"TensorFlow got only {format_bytes(limit)} of the card")
    elif limit and not story.setting(facts) and (twin := cards.twin(facts)):
        got = f"TensorFlow got {format_bytes(limit)} of this card, and {format_bytes(twin.given)} of GPU:{twin.number}"
        yield Clue(5.0, f"{got}, which is the same kind of card")
    held = story.others(facts)
    if held and held > 0.1 * ((arena.total if arena else None) or 4 * GIB):
        yield Clue(5.0, f"other processes hold {format_bytes(held)}")
    if facts.face == "cuda-context" or _CANNOT_START.search(facts.words):
        yield Clue(4.0, "CUDA could not even start on the card")
    elif facts.is_tiny() and ops.is_initializer(facts.op or ""):
        yield Clue(4.5, "the first weights, which are small, found no room: the card was full before")
    elif facts.face == "gpu-start-failed":
        yield Clue(2.5, "a CUDA library could not start on the card")
    yield from said(facts, _SAID, 5.0)
    if facts.face == "card-refused-little":
        yield Clue(2.5, "the card refused even a little")
    if "CUBLAS_STATUS_NOT_INITIALIZED" in facts.words:
        yield Clue(3.5, "cuBLAS could not get the little that it needs to start")
    if arena and arena.limit and arena.in_use is not None and facts.wanted and facts.face != "torch-cuda":
        taken = arena.pool if arena.pool is not None else arena.in_use
        if taken + facts.wanted < arena.limit * (1.0 if facts.refused else 0.9) and not arena.fragmentation:
            got = f"TensorFlow was allowed {format_bytes(arena.limit)}, and the card gave it {format_bytes(taken)}"
            yield Clue(6.0 if facts.refused else 4.0, got)
    if arena and arena.total and arena.largest_free == 0 and (arena.in_use or 0) < arena.total / 2:
        yield Clue(3.0, "nothing at all is free on the card, and nothing shows that this process holds it")


def advice(facts: Facts) -> Iterator[Advice]:
    """Find it, end it, or share."""
    yield Advice("See who holds the card", "their process numbers and memory", "nvidia-smi    # or: fitroom env")
    yield Advice(
        "End it: restart the other notebook's kernel, or kill the process that was left behind",
        "all that it holds comes free",
        "kill PID",
    )
    yield Advice("Where two have to share the card, give each a part of it", "", "fitroom run --budget 4GiB train.py")


def futile(facts: Facts) -> Iterator[str]:
    """A smaller batch."""
    yield "a smaller batch, before the card is free: what is left to you may vanish as well"
