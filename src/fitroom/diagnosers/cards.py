"""What the words tell of each of several cards: how full it was, who was on it, and what TensorFlow got of it."""

from __future__ import annotations

import re
from typing import NamedTuple

from fitroom.diagnosers import dump, replicas
from fitroom.patterns import Pattern

TYPE_CHECKING = False

if TYPE_CHECKING:
    from fitroom.diagnosers.facts import Facts


class Load(NamedTuple):
    """How full a card was."""

    number: int
    used: int
    total: int

    @property
    def share(self) -> float:
        """The part of it that was in use."""
        return self.used / self.total if self.total else 0.0


_TABLES = (
    # nvidia-smi: a line with the card's number and bus, and one with its memory. The first bar may have been taken for
    # a quotation mark.
    Pattern(
        r"^[|│ \t]*(\d{1,2})[ \t]+\S[^\n|│]{2,60}[|│][ \t]*[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.\d[^\n]{0,120}\n"
        r"[^\n/]{0,80}/[^\n|│]{0,20}[|│][ \t]*(\d{1,7})[ \t]?MiB[ \t]*/[ \t]*(\d{1,7})[ \t]?MiB",
        re.IGNORECASE | re.MULTILINE,
    ),
    # nvidia-smi --query-gpu=index,memory.used,memory.total --format=csv
    Pattern(r"^[ \t]*(\d{1,2}),[ \t]*(\d{1,7})[ \t]?MiB,[ \t]*(\d{1,7})[ \t]?MiB", re.MULTILINE),
    # gpustat
    Pattern(
        r"^[ \t]*\[(\d{1,2})\][ \t][^\n|]{2,60}\|[^\n|]{0,60}\|[ \t]*(\d{1,7})[ \t]*/[ \t]*(\d{1,7})[ \t]?MB",
        re.MULTILINE,
    ),
)
_PROCESS = Pattern(
    r"^[|│ \t]*(\d{1,2})[ \t]+(?:N/A[ \t]+N/A[ \t]+)?\d+[ \t]+(?:C|C\+G)[ \t]+\S[^\n]*?[ \t](\d{1,7})[ \t]?MiB",
    re.MULTILINE,
)
_LITTLE = 256  # MiB: what a process takes on every card that it sees


def loads(facts: Facts) -> tuple[Load, ...]:
    """How full each card was: by the last table of them in the log, else by the accounts of several allocators."""
    text = f"{facts.before[-40_000:]}\n{facts.words[-200_000:]}"
    for pattern in _TABLES:
        if found := {int(one[0]): (int(one[1]) << 20, int(one[2]) << 20) for one in pattern.findall(text)}:
            return tuple(Load(number, *sizes) for number, sizes in sorted(found.items()))
    accounts = sorted(dump.accounts(text).items())
    return tuple(
        Load(number, one.in_use, one.limit) for number, one in accounts if one.in_use is not None and one.limit
    )


def processes(facts: Facts, number: int) -> int:
    """How many processes held a part of this card, as nvidia-smi lists them."""
    text = f"{facts.before[-40_000:]}\n{facts.words[-200_000:]}"
    return sum(int(one[0]) == number and int(one[1]) > _LITTLE for one in _PROCESS.findall(text))


_CREATED = Pattern(
    r"\b[Cc]reated\s+(?:TensorFlow\s+)?device\s[^\n]{0,120}?(?:GPU:(\d{1,3})\s+)?\bwith\s+(\d{1,9})\s+MB\s+memory"
    r"(?:[^\n]{0,60}?\bname:\s*([^,\n]{1,60}))?",
    re.IGNORECASE,
)


class Card(NamedTuple):
    """What TensorFlow got of a card when it started, and which make of card it is."""

    number: int
    given: int
    name: str


def given(facts: Facts) -> list[Card]:
    """The cards that TensorFlow took, in their order."""
    found = _CREATED.findall(facts.before) or _CREATED.findall(facts.words)
    return [Card(int(number or 0), int(size) << 20, name.strip()) for number, size, name in found]


def twin(facts: Facts) -> Card | None:
    """A card of the same make as the one that failed, of which TensorFlow got more than twice as much."""
    taken, number = given(facts), replicas.index(facts.device)
    own = next((one for one in taken if one.number == number), None)
    if own is None or not own.name:
        return None
    same = [one for one in taken if one.name == own.name and one.given > 2 * own.given]
    return max(same, key=lambda one: one.given, default=None)
