"""What would fit, in numbers, as far as a failure tells."""

from __future__ import annotations

from fitroom.diagnosers import story
from fitroom.units import format_bytes

TYPE_CHECKING = False

if TYPE_CHECKING:
    from fitroom.diagnosers.facts import Facts


def needed(facts: Facts) -> int | None:
    """The least that the step needs: what was in use, and what was asked for on top; or what it is known to need."""
    if facts.footprint is not None:
        return facts.footprint.worst
    if facts.in_use is not None and facts.tensor_bytes is not None:
        return facts.in_use + facts.tensor_bytes
    return facts.tensor_bytes if facts.is_giant() or facts.face == "xla-out-of-memory" else None


def fitting_batch(facts: Facts) -> int | None:
    """The largest batch that can fit, if all that is needed shrinks with it; an upper bound therefore."""
    batch, need, limit = story.batch(facts), needed(facts), facts.limit
    if facts.footprint is not None and limit and callable(largest := getattr(facts.footprint, "max_batch", None)):
        return int(largest(limit))
    if not batch or not need or not limit or need <= limit:
        return None
    return min(batch - 1, int(batch * limit / need))


def slices(facts: Facts) -> int | None:
    """Into how many slices the batch would have to go."""
    batch, fits = story.batch(facts), fitting_batch(facts)
    if not batch or not fits:
        return None
    count = 2
    while batch / count > fits and count < batch:
        count *= 2
    return count


def shape_words(facts: Facts) -> str:
    """The tensor that was asked for, in words: ``64 × 112 × 112 × 64 float (196 MiB)``."""
    if not facts.shape:
        return format_bytes(facts.wanted) if facts.wanted else "memory"
    axes = " × ".join(map(str, facts.shape))
    size = f" ({format_bytes(facts.tensor_bytes)})" if facts.tensor_bytes else ""
    return f"{axes} {facts.dtype or ''}".rstrip() + size
