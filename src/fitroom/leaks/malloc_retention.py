"""Memory that was freed, and that C's allocator keeps."""

from __future__ import annotations

from collections.abc import Iterator

from fitroom.core import Cause
from fitroom.leaks.cause import page
from fitroom.leaks.facts import Facts, unit
from fitroom.leaks.happenings import CALLS, STEPS
from fitroom.leaks.leak import Leak
from fitroom.units import MIB

CAUSE = Cause.MALLOC_RETENTION
PAGE = page(
    CAUSE,
    "glibc's malloc keeps pages that were freed, where blocks that live on lie between them. The process looks larger "
    "and larger, though nothing in it is.",
    "RSS rises while what malloc has handed out stays where it is; malloc_trim(0) makes it fall.",
    "ctypes.CDLL(None).malloc_trim(0) now and then (fitroom.callbacks.LeakWatch(act=True) does it); or another malloc: "
    "LD_PRELOAD=libjemalloc.so.2. Fewer arenas (MALLOC_ARENA_MAX=2) help, too, and may be slow.",
)
_MUCH = 48 * MIB


def find(facts: Facts) -> Iterator[Leak]:
    """RSS that rose while nothing else did, fell when malloc was told to give back, and rises again."""
    looks = facts.looks
    if len(looks) < 3 or facts.lasting()[0] > _MUCH or not facts.trends["rss"].grows:
        return
    if any(look.garbage >= _MUCH // 4 for look in looks):  # not freed: waiting for Python's collector
        return
    given = [look.after.rss - look.trimmed for look in looks if look.trimmed is not None]
    again = looks[-1].before.rss - (looks[-2].trimmed or looks[-2].after.rss)
    if len(given) < 2 or given[0] < _MUCH or given[0] < 0.5 * facts.trends["rss"].risen or again < _MUCH // 4:
        return
    kinds = looks[-1].kinds - looks[0].kinds
    kind = unit(kinds, looks[-1].turn - looks[0].turn)
    loop = facts.happened.loop(*STEPS, *CALLS)
    yield Leak(
        CAUSE,
        loop[0] if loop is not None else None,
        f"malloc kept {given[0] // MIB} MiB that had been freed",
        "have malloc give it back now and then, or take another malloc",
        "ctypes.CDLL(None).malloc_trim(0)",
        given[0],
        kind,
        facts.trends["rss"].per_turn,
        confidence=0.75,
    )
