"""XLA programs: one is compiled for each model, function and shape, and kept."""

from __future__ import annotations

from collections.abc import Iterator

from fitroom.core import Cause
from fitroom.leaks.cause import is_much, page, repeated
from fitroom.leaks.facts import Facts
from fitroom.leaks.leak import Leak

CAUSE = Cause.XLA_PROGRAMS_IN_LOOP
PAGE = page(
    CAUSE,
    "XLA compiles a program of its own for each function, each model and each shape of its inputs, and keeps it: some "
    "MiB each. New models, or ever other shapes, make it compile again and again.",
    "the process grows with each compilation, steps take seconds now and then; jit_compile=True, or a GPU, where Keras "
    "turns it on by itself.",
    "reuse the model or the function; pad inputs to a few shapes; compile(…, jit_compile=False); or a process for "
    "each training: fitroom.isolated(train)(…).",
)


def find(facts: Facts) -> Iterator[Leak]:
    """A line that has XLA compile again and again, while memory rises with each program."""
    rise, on_device = facts.unexplained()
    found = repeated(facts, "program")
    if found is None or not is_much(rise, found[2]):
        return
    made, total, times = found
    yield Leak(
        CAUSE,
        made.place,
        f"XLA has compiled {total} programs for this line, and keeps them",
        "reuse the model or function, with few shapes, or do without XLA here",
        "model.compile(…, jit_compile=False)    # or fitroom.isolated(train)(…)",
        rise,
        "program",
        rise / times,
        made.also,
        on_device=on_device,
        confidence=0.85,
    )
