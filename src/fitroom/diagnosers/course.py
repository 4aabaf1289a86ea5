"""How it had been going before it failed: epochs, rounds, steps, and memory that rose."""

from __future__ import annotations

import re
from itertools import pairwise

from fitroom.oom_words import amount
from fitroom.patterns import Pattern

TYPE_CHECKING = False

if TYPE_CHECKING:
    from fitroom.diagnosers.facts import Facts

_EPOCH = Pattern(r"\bepoch(?:\s*[:=#\[]\s*|\s+)(\d+)\b(?!\s*(?:sec|min|takes))", re.IGNORECASE)
_STEP = Pattern(r"\b(?:global[_ ])?step(?:\s*[:=]\s*|\s+)(\d{3,8})\b", re.IGNORECASE)
_FUNCTION = Pattern(r"\[Op:__inference_\w*?_(\d+)\]")
# TensorFlow's own warning says "creating @tf.function repeatedly in a loop".
_LOOP = Pattern(r"(?<!repeatedly )\bin (?:a |the )?(?:for )?loop\b")
_NTH = Pattern(r"\b(\d+)(?:st|nd|rd|th) (?:\w+ )?(?:trial|candidate|model|solution|iteration|fold|epoch|run|episode)\b")
_WHILE = Pattern(
    r"\bafter (?:running |training )?(?:for )?(?:a while|some time"
    r"|(?:one|two|three|a few|some|several|many) (?:epochs?|iterations?|steps|trials|hours|days))\b"
)
_ROUND = Pattern(r"\b(?:[Tt]rial|[Ff]old|[Rr]un|[Ii]teration|[Ee]pisode|[Mm]odel)\s*#?:?\s*(\d+)\b")
_NUMBERED = Pattern(r"\b(?:sequential|model|functional|training)_(\d+)/")
_AFTER_ROUNDS = Pattern(
    r"\bafter\s+(?:about\s+|around\s+|some\s+|~\s?)?(\d+)(?:/\d+)?k?\s*"
    r"(?:trials|folds|runs|models|episodes|iterations|epochs|hours|hrs|days)\b"
)
_RETRACING = Pattern(r"triggered tf\.function retracing|\bretracing\b")
# A line of some monitor: "memory: 381.5MB", "RSS 4.2 GiB", "current=419.6MB".
_USED = Pattern(
    r"(?:mem(?:ory)?|rss|ram|current|used|usage|allocated)\b[^\d\n]{0,20}(\d+(?:\.\d+)?\s?[KMGT]i?B)\b", re.IGNORECASE
)


def epochs(facts: Facts) -> int:
    """How many epochs had been gone through."""
    found = [int(one) for one in _EPOCH.findall(_told(facts)) if len(one) < 7]
    return max(found, default=1) - 1


def steps(facts: Facts) -> int:
    """How many steps had been gone through, as a training that prints them says."""
    found = [int(one) for one in _STEP.findall(_told(facts))]
    return max(found, default=0)


def rises(facts: Facts) -> tuple[int, int] | None:
    """The first and last of the memory that somebody printed while it ran, where it only ever rose."""
    lines = _told(facts)[-40_000:].splitlines()
    found = [amount(match[1]) or 0 for line in lines if (match := _USED.search(line))]
    is_rising = len(found) >= 3 and all(one < later for one, later in pairwise(found))
    return (found[0], found[-1]) if is_rising and found[-1] > 1.1 * found[0] else None


def rounds(facts: Facts) -> int:
    """How many trials, folds or iterations of some loop had been gone through."""
    found = {int(one) for one in _ROUND.findall(_told(facts)) if len(one) < 7}
    words = _told(facts)[-40_000:]
    said = [int(one) for pattern in (_AFTER_ROUNDS, _NTH) for one in pattern.findall(words) if len(one) < 7]
    return max(said or found) if said or len(found) > 1 or (found and max(found) > 2) else 0


def is_in_loop(facts: Facts) -> bool:
    """Whether somebody says that it happens in a loop, or after a while."""
    return any(pattern.search(facts.words[-12_000:]) for pattern in (_LOOP, _WHILE))


def models(facts: Facts) -> int:
    """How many models the process had made, by how Keras numbers their names."""
    return max((int(one) for one in _NUMBERED.findall(facts.op or "") if len(one) < 5), default=0)


def graphs(facts: Facts) -> int:
    """How many operations the process had made when it made this function: TensorFlow numbers it so."""
    found = _FUNCTION.findall(facts.words[-20_000:])
    return max((int(one) for one in found if len(one) < 10), default=0)


def node_number(facts: Facts) -> int:
    """The number that TensorFlow gave the operation: 2518 of `sub_2518`, where so many came before it."""
    match = re.match(r"[A-Za-z]+_(\d{1,7})$", facts.op or "")
    return int(match[1]) if match else 0


def is_growing(facts: Facts) -> bool:
    """Whether it had gone well for a while, by what was said before."""
    return epochs(facts) >= 1 or rounds(facts) >= 2


def retracings(facts: Facts) -> int:
    """How often TensorFlow warned of retracing."""
    return len(_RETRACING.findall(_told(facts)))


def _told(facts: Facts) -> str:
    """The last of what was said before it, and of it: a log may be one endless line."""
    return f"{facts.before[-200_000:]}\n{facts.words[-200_000:]}"
