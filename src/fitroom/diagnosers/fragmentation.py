"""Enough is free, but in pieces that are too small."""

from __future__ import annotations

from fitroom.core import Advice, Cause
from fitroom.diagnosers.cause import Clue, page
from fitroom.oom_words import amount
from fitroom.patterns import Pattern
from fitroom.units import format_bytes

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fitroom.diagnosers.dump import Arena
    from fitroom.diagnosers.facts import Facts

CAUSE = Cause.FRAGMENTATION
PAGE = page(
    CAUSE,
    "The allocator cuts its memory into chunks and cannot move those in use. Tensors of ever other sizes leave gaps "
    "that no larger tensor fits into.",
    "limit - in use is larger than what was asked for, and the largest free block is smaller. TensorFlow's sentence "
    "'if the cause is memory fragmentation' says nothing: it is always printed.",
    "CUDA's own allocator, TF_GPU_ALLOCATOR=cuda_malloc_async (for PyTorch: "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True). Tensors of the same sizes: pad sequences to some few lengths, "
    "drop the smaller last batch. Make the large, lasting tensors first.",
)


# A TPU's program needs one piece of its memory.
_RESERVABLE = Pattern(
    r"That was not possible\. There are ([\d.]+[KMGT]?) free, [\d.]+[KMGT]?B? reserved, and ([\d.]+[KMGT]?) reservable"
)


def clues(facts: Facts) -> Iterator[Clue]:
    """The dump's numbers, and nothing else."""
    arena = facts.arena
    if facts.wanted and (match := _RESERVABLE.search(facts.words)):
        free, piece = amount(match[1]) or 0, amount(match[2]) or 0
        if free >= facts.wanted > piece:
            yield Clue(5.0, f"{format_bytes(free)} were free, but {format_bytes(piece)} in one piece")
    if arena and facts.wanted is None and _would_have_fit(arena):
        yield Clue(4.0, "more was free than was ever asked for at once, though not in one piece")
    if arena is None or arena.in_use is None or facts.wanted is None or not facts.resource.is_memory:
        return
    pool = arena.pool or arena.limit or 0
    free = pool - arena.in_use
    if facts.face == "torch-cuda":
        # Some is always kept for later. PyTorch itself says: if reserved memory is much more than allocated memory.
        if arena.idle and arena.idle > max(facts.wanted, 0.2 * (arena.in_use + arena.idle)):
            words = format_bytes(arena.idle)
            yield Clue(5.0, f"PyTorch holds {words} that no tensor uses, more than was asked for")
        return
    if arena.largest_free and free >= facts.wanted > arena.largest_free and (arena.fragmentation or 0) > 0.1:
        yield Clue(
            7.0,
            f"{format_bytes(free)} were free and {format_bytes(facts.wanted)} asked for, but the largest free "
            f"block was {format_bytes(arena.largest_free)}",
        )


def _would_have_fit(arena: Arena) -> bool:
    """Whether so much was free that the largest request ever would have fitted, had it been in one piece."""
    if not arena.limit or arena.in_use is None or not arena.largest_request or (arena.requests or 0) < 1000:
        return False
    return (
        arena.limit - arena.in_use > 1.2 * arena.largest_request
        and 0.3 * arena.limit < arena.in_use < 0.7 * arena.limit
    )


def advice(facts: Facts) -> Iterator[Advice]:
    """Another allocator, fewer sizes."""
    if facts.face == "torch-cuda":
        code = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py"
        yield Advice("Let PyTorch grow its segments", "what is reserved and not used comes free", code)
        return
    arena = facts.arena
    gaps = ""
    if arena and arena.largest_free and arena.in_use is not None and (pool := arena.pool or arena.limit):
        gaps = f"{format_bytes(pool - arena.in_use - arena.largest_free)} lie in gaps"
    yield Advice(
        "Use CUDA's own allocator, which closes gaps", gaps, "TF_GPU_ALLOCATOR=cuda_malloc_async python train.py"
    )
    yield Advice(
        "Keep to few sizes: pad sequences to some few lengths, drop the smaller last batch",
        "chunks are used again",
        "dataset.batch(32, drop_remainder=True)",
    )


def futile(facts: Facts) -> Iterator[str]:
    """Memory growth."""
    yield "memory growth: it makes more regions, and chunks of two regions do not join"
