"""Objects that refer to each other: only Python's collector frees them, and it counts objects, not bytes."""

from __future__ import annotations

from collections.abc import Iterator

from fitroom.core import Cause
from fitroom.leaks.cause import page
from fitroom.leaks.facts import Facts, unit
from fitroom.leaks.leak import Leak
from fitroom.units import MIB

CAUSE = Cause.REFERENCE_CYCLES
PAGE = page(
    CAUSE,
    "Objects that refer to each other, or to themselves, are freed by Python's collector only. It runs after so many "
    "new objects, however large they are: a few objects with large arrays wait for long.",
    "memory rises, and falls all at once on gc.collect(); a saw's teeth, where Python comes to it by itself.",
    "break the circle (a weakref.ref, no self in the lambda, del at the end), or gc.collect() at the end of each "
    "epoch. fitroom.callbacks.LeakWatch(act=True) does the latter.",
)
_MUCH = 8 * MIB  # in garbage, from look to look


def find(facts: Facts) -> Iterator[Leak]:
    """Garbage that was there at each look, and that Python had not come to."""
    looks = facts.looks[-3:]
    if len(looks) < 3 or facts.cycle is None or facts.cycle.place is None:
        return
    if any(look.garbage < _MUCH for look in looks[1:]) or looks[0].collections != looks[-1].collections:
        return
    garbage = sum(look.garbage for look in looks[1:])
    kinds = looks[-1].kinds - looks[0].kinds
    kind = unit(kinds, looks[-1].turn - looks[0].turn)
    on_device = sum(max(0, look.before.device - look.after.device) for look in looks[1:]) > garbage // 2
    yield Leak(
        CAUSE,
        facts.cycle.place,
        f"{facts.cycle.what} refer to each other, and wait for Python's collector with all that they hold",
        "break the circle, or collect at the end of each epoch",
        "gc.collect()    # or weakref.ref(…) in one of them",
        garbage,
        kind,
        garbage / max(1, kinds[kind]),
        facts.cycle.also,
        on_device=on_device,
        confidence=0.85,
    )
