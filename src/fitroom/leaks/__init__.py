"""Counters over time → Diagnosis: what keeps growing, why, and on which line of the user's code.

    a tick (step, call, epoch) ─► counters ─► trends ─ suspicion ─► looks at the heap ─► Facts ─ causes ─► Leak

Where nothing grows, nothing but the counters is read. What grows is judged by what is left after a collection of
garbage, look by look, and only what has a cause and a place is told.
"""

from __future__ import annotations

from fitroom.leaks import (
    dataset_in_loop,
    growing_history,
    malloc_retention,
    models_in_loop,
    predict_in_loop,
    reference_cycles,
    retained_tensors,
    retraced,
    second_step,
    xla_programs_in_loop,
)

TYPE_CHECKING = False

if TYPE_CHECKING:
    from fitroom.leaks.cause import LeakFile

# What has a name of the user's comes first: it explains growth that others would claim.
NAMED: tuple[LeakFile, ...] = (retained_tensors, growing_history)
# Of these one explains the rest: the first that fits.
MADE: tuple[LeakFile, ...] = (xla_programs_in_loop, models_in_loop, retraced, dataset_in_loop, predict_in_loop)
OTHERS: tuple[LeakFile, ...] = (reference_cycles, malloc_retention, second_step)
CAUSES: tuple[LeakFile, ...] = (*NAMED, *MADE, *OTHERS)
PAGES = tuple(one.PAGE for one in CAUSES if one is not retraced)  # whose page is the diagnosers'
