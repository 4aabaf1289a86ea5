"""Common GPUs, by name: what TensorFlow's allocator gets of each when nobody else uses it.

The driver's total, less a CUDA context, less the reserve that TensorFlow leaves to the system. Checked against start-up
lines that people posted ("Created device … with N MB memory"): within 1 % on eight cards from a P100 to an A100.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import NamedTuple

from fitroom.devices.gpu import reserve
from fitroom.errors import UsageError
from fitroom.units import MIB

_CONTEXT = 512 * MIB  # a CUDA context with its libraries


def usable(free: int, capability: tuple[int, int]) -> int:
    """What TensorFlow's allocator gets of so many free bytes, once it has a context."""
    left = max(free - _CONTEXT, 0)
    return max(left - reserve(left, capability), 0)


class Card(NamedTuple):
    """A GPU that one can buy or rent.

    Attributes:
        name: as people write it.
        mib: its memory as the driver reports it.
        capability: CUDA compute capability.
        is_common: whether it is shown without being asked for.
    """

    name: str
    mib: int
    capability: tuple[int, int]
    is_common: bool = False

    @property
    def usable(self) -> int:
        """The allocator's limit on it, in bytes."""
        return usable(self.mib * MIB, self.capability)


CARDS = (
    Card("GTX 1060 3GB", 3011, (6, 1)),
    Card("GTX 1060 6GB", 6078, (6, 1)),
    Card("GTX 1070", 8119, (6, 1)),
    Card("GTX 1080", 8119, (6, 1)),
    Card("GTX 1080 Ti", 11178, (6, 1)),
    Card("GTX 1650", 3911, (7, 5)),
    Card("GTX 1660 Ti", 5944, (7, 5)),
    Card("Titan X", 12212, (5, 2)),
    Card("Titan Xp", 12196, (6, 1)),
    Card("Titan V", 12066, (7, 0)),
    Card("Titan RTX", 24220, (7, 5)),
    Card("RTX 2060", 5934, (7, 5)),
    Card("RTX 2070", 7982, (7, 5)),
    Card("RTX 2080", 7982, (7, 5)),
    Card("RTX 2080 Ti", 11019, (7, 5), True),
    Card("RTX 3050", 7973, (8, 6)),
    Card("RTX 3060", 12053, (8, 6), True),
    Card("RTX 3060 Ti", 7973, (8, 6)),
    Card("RTX 3070", 7973, (8, 6)),
    Card("RTX 3080", 10018, (8, 6), True),
    Card("RTX 3080 12GB", 12053, (8, 6)),
    Card("RTX 3080 Ti", 12053, (8, 6)),
    Card("RTX 3090", 24268, (8, 6), True),
    Card("RTX 4060", 7957, (8, 9)),
    Card("RTX 4060 Ti 8GB", 7957, (8, 9)),
    Card("RTX 4060 Ti 16GB", 16072, (8, 9)),
    Card("RTX 4070", 12009, (8, 9)),
    Card("RTX 4070 Ti", 12009, (8, 9)),
    Card("RTX 4070 Ti Super", 16072, (8, 9)),
    Card("RTX 4080", 16072, (8, 9)),
    Card("RTX 4090", 24217, (8, 9), True),
    Card("RTX 5070", 11954, (12, 0)),
    Card("RTX 5080", 15992, (12, 0)),
    Card("RTX 5090", 32088, (12, 0), True),
    Card("RTX A4000", 16115, (8, 6)),
    Card("RTX A5000", 24255, (8, 6)),
    Card("RTX A6000", 48677, (8, 6)),
    Card("RTX 6000 Ada", 48646, (8, 9)),
    Card("K80", 11441, (3, 7)),
    Card("P4", 7611, (6, 1)),
    Card("P100", 16280, (6, 0), True),
    Card("T4", 15360, (7, 5), True),
    Card("V100 16GB", 16160, (7, 0), True),
    Card("V100 32GB", 32510, (7, 0)),
    Card("A10", 22731, (8, 6)),
    Card("A10G", 22731, (8, 6), True),
    Card("A30", 24176, (8, 0)),
    Card("A40", 45634, (8, 6)),
    Card("A100 40GB", 40536, (8, 0), True),
    Card("A100 80GB", 81251, (8, 0), True),
    Card("L4", 23034, (8, 9), True),
    Card("L40S", 46068, (8, 9)),
    Card("H100 80GB", 81559, (9, 0), True),
    Card("H200", 143771, (9, 0)),
    Card("B200", 183359, (10, 0)),
)

_ADDS_NOTHING = re.compile(r"nvidia|geforce|tesla|quadro|gpu|rtx|gtx|sxm\d?|pcie|hbm\d?|[-_\s]")


def find(name: str) -> Card:
    """The card of this name, however it is written: ``rtx3090``, ``NVIDIA A100-SXM4-40GB``.

    Raises:
        UsageError: if there is none; names those that are close.
    """
    wanted = _plain(name)
    known = {_plain(card.name): card for card in CARDS}
    if wanted in known:
        return known[wanted]
    sizes = [card for plain, card in known.items() if re.fullmatch(re.escape(wanted) + r"\d+gb", plain)]
    if sizes:
        return min(sizes, key=lambda card: card.mib)  # the smaller one of two that have this name
    for digits in (1, 2, 3):  # there is only one of this name, and people add its size
        size = re.fullmatch(rf"(.+?)\d{{{digits}}}gb", wanted)
        if size and size[1] in known:
            return known[size[1]]
    close = get_close_matches(wanted, known, n=3, cutoff=0.5)
    raise UsageError(
        "No such GPU in the catalogue",
        received=name,
        expected="one of " + ", ".join(known[one].name for one in close) if close else None,
        hint="--gpu all, which shows all of them; or --budget with the memory it has",
    )


def _plain(name: str) -> str:
    return _ADDS_NOTHING.sub("", name.lower()).replace("gib", "gb")
