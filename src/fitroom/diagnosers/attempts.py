"""A step that a guard gave up → the attempt that failed last: from the exception itself, or from its words in a log."""

from __future__ import annotations

from fitroom.core import Attempt
from fitroom.oom_words import amount
from fitroom.patterns import Pattern

_DEEPEST = 20  # exceptions that were raised from each other


def of_exception(error: BaseException) -> Attempt | None:
    """What the exception, or one that it was raised from, carries with it."""
    current: BaseException | None = error
    for _ in range(_DEEPEST):
        if current is None:
            break
        found = getattr(current, "attempt", None)
        if isinstance(found, Attempt):
            return found
        current = current.__cause__
    return None


# As training/guarded_step.py and eager_calls.py word it.
_GIVEN_UP = Pattern(
    r"DoesNotFit: (?:A batch of (?P<batch>\d{1,9}) (?:does not fit|needs about [^\n,]{1,20}), and [^:\n]{1,40}: "
    r"(?P<refused>[^\n]{1,300}?)"
    r"|(?P<update>The optimizer's update does not fit)[^\n]{0,200}?|(?P<one>A single sample does not fit)[^\n]{0,200}?"
    r"|The batch does not fit[^\n]{0,200}?)\. (?:Received:|Try:)"
)
_RECEIVED = Pattern(r"Received: ([\d.]+ \w+) on \S+, ([\d.]+ \w+)(?: of it)? in use")
_ALLOW = Pattern(r"Try: ([^\n]{1,200}?), which runs slices instead of whole batches")


def of_text(words: str) -> Attempt | None:
    """The same, as far as the error's words in a log tell."""
    match = _GIVEN_UP.search(words)
    if match is None:
        return None
    rest = words[match.start() : match.start() + 2000]
    there, allow = _RECEIVED.search(rest), _ALLOW.search(rest)
    batch = int(match["batch"]) if match["batch"] else 1 if match["one"] else 0
    return Attempt(
        phase="update" if match["update"] else "gradients",
        trains=True,
        batch_size=batch,
        at_once=batch,
        limit_bytes=amount(there[1]) if there else None,
        in_use_bytes=amount(there[2]) if there else None,
        refused=match["refused"] or "",
        hint=allow[1] if allow else "",
    )
