"""Models that are made in a loop: trials, folds, restarts."""

from __future__ import annotations

from collections.abc import Iterator

from fitroom.core import Cause
from fitroom.leaks.cause import is_much, page, repeated
from fitroom.leaks.facts import Facts
from fitroom.leaks.leak import Leak
from fitroom.units import KIB

CAUSE = Cause.MODELS_IN_LOOP
PAGE = page(
    CAUSE,
    "Each model that is compiled and trained leaves graphs, compiled functions and entries in Keras' global state "
    "behind, and its weights, too, where something still refers to it. In a loop over trials or folds that adds up.",
    "the process is larger at the beginning of each turn than at the beginning of the one before, by some MiB; the "
    "device mostly stays where it is.",
    "a process for each training gives everything back: fitroom.isolated(train)(…). keras.utils.clear_session() "
    "between models gives back some of it; keep scores, not models; or make one model and set its weights anew.",
)

_MANY = 6  # models: five folds are no leak
_LEAST_CLEARED = 192 * KIB  # for each: what is left after the session was cleared is worth no process each


def find(facts: Facts) -> Iterator[Leak]:
    """Models in a list of the user's; else a line that makes models, while memory rises with each."""
    kept = [held for held in facts.held if held.size.models]
    for held in kept:
        kind, each = held.each()
        place = held.lines[0] if held.lines else None
        what = f"{held.name} holds {held.length} models"
        fix = "keep scores or weights, not models; train each in a process of its own"
        yield Leak(CAUSE, place, what, fix, "fitroom.isolated(train)(…)", held.size.total, kind, each, held.lines[1:3])
    rise, on_device = facts.unexplained()
    found = repeated(facts, "model")
    if kept or found is None or found[1] < _MANY or not is_much(rise, found[2]):
        return
    made, total, times = found
    if facts.clears and rise < _LEAST_CLEARED * times:
        return
    cleared = " (keras.utils.clear_session() is called, and does not give it back)" if facts.clears else ""
    yield Leak(
        CAUSE,
        made.place,
        f"{total} models were made here, and each leaves memory behind{cleared}",
        "train each model in a process of its own, which gives everything back",
        "fitroom.isolated(train)(…)" + ("" if facts.clears else "    # or keras.utils.clear_session() before each"),
        rise,
        "model",
        rise / times,
        made.also,
        on_device=on_device,
        confidence=0.85,
    )
