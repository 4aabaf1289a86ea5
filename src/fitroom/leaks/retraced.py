"""Functions that are traced again and again: which one, and which argument keeps changing."""

from __future__ import annotations

from collections.abc import Iterator

from fitroom.core import Cause
from fitroom.diagnosers import retracing
from fitroom.leaks.cause import OFTEN, is_much, repeated
from fitroom.leaks.facts import Facts
from fitroom.leaks.happenings import Traced
from fitroom.leaks.leak import Leak

CAUSE = Cause.RETRACING
PAGE = retracing.PAGE  # the same cause, whether a log or the process itself tells


def find(facts: Facts) -> Iterator[Leak]:
    """A function with more graphs at each look; or one that is made anew each time."""
    rise, _ = facts.unexplained()
    found = [
        (times, traced)
        for key, traced in facts.happened.traced.items()
        if (counts := [look.traces.get(key, 0) for look in facts.looks])
        and facts.still(counts)
        and traced.traces >= OFTEN
        and (times := counts[-1] - counts[0])
        and not facts.may_be_ours(times, kind="function")
    ]
    for times, traced in sorted(found, key=lambda one: -one[0])[:1]:
        if is_much(rise, times):
            yield _again(traced, rise, times)
            return
    compiled = repeated(facts, "compiled")
    if compiled is not None and is_much(rise, compiled[2]):
        made, total, times = compiled
        what = f"compile was called here {total} times, and each time the model's functions are traced anew"
        fix, code = "compile once; set what changes", "model.optimizer.learning_rate = 1e-4"
        yield Leak(CAUSE, made.place, what, fix, code, rise, "trace", rise / times, made.also, confidence=0.8)
        return
    anew = repeated(facts, "function")
    if anew is not None and is_much(rise, anew[2]):
        made, total, times = anew
        what = f"a tf.function is made here anew each time, {total} so far, each with a graph of its own"
        fix, code = "make it once, before the loop", "@tf.function    # at the top of the file"
        yield Leak(CAUSE, made.place, what, fix, code, rise, "trace", rise / times, made.also, confidence=0.8)


def _again(traced: Traced, rise: int, times: int) -> Leak:
    changing = traced.changing()
    why, fix, code = "", "call it with the same kinds of arguments each time", "@tf.function(reduce_retracing=True)"
    if changing is not None:
        name, values = changing
        why = f": its argument {name} is another each time ({', '.join(dict.fromkeys(values[-3:]))})"
        if "shape" in values[-1]:
            fix, code = f"give {name} few shapes: pad, or say that they vary", "@tf.function(reduce_retracing=True)"
        elif values[-1].startswith("a "):
            fix, code = f"pass the same {name} each time, or its numbers as tensors", f"tf.constant({name})"
        else:
            fix, code = f"pass {name} as a tensor", f"tf.constant({name})"
    graphs = f", {traced.operations} operations in all" if traced.operations else ""
    return Leak(
        CAUSE,
        traced.place or traced.called,
        f"{traced.name} has been traced {traced.traces} times{graphs}{why}",
        fix,
        code,
        rise,
        "trace",
        rise / times,
        (traced.called,) if traced.called is not None and traced.place is not None else (),
    )
