"""The one closing line: what was done, and what it means for the result."""

from __future__ import annotations

from collections.abc import Sequence

from fitroom.core import Event
from fitroom.remedies import float32_data, micro_batch, recompute


def closing_line(events: Sequence[Event]) -> str | None:
    """One line about a training; None where nothing happened that a user should know."""
    ooms = [event for event in events if event.kind == "oom"]
    rungs = [event for event in events if event.kind == "rung" and event.data["remedy"] == micro_batch.NAME]
    again = [event for event in events if event.kind == "rung" and event.data["remedy"] == recompute.NAME]
    refused = [event for event in events if event.kind == "not_recomputed"]
    cast = [event for event in events if event.kind == "rung" and event.data["remedy"] == float32_data.NAME]
    turned = [event for event in events if event.kind == "turned"]
    looped = [event for event in events if event.kind == "loop_in_python"]
    if not (ooms or rungs or again or refused or turned or cast or looped):
        return None
    if events[-1].kind == "does_not_fit":
        return "fitroom: it ran out of memory and does not fit; nothing is left of the step that failed."
    parts = [
        str(event.data["words"]) + ("" if event.data["exact"] else ", allowed by you, which is another training")
        for event in turned
    ]
    if cast:
        parts.append("arrays of 64 bits were cast batch by batch, to the same numbers")
    parts += [f"Python looped over the dataset of {event.data['of']}, so that steps can be cut" for event in looped]
    if ooms:
        times = "once" if len(ooms) == 1 else f"{len(ooms)} times"
        parts.append(f"ran out of memory {times} and lost nothing")
    if again:
        parts.append("activations were computed again instead of kept, which keeps the math and takes more time")
    if refused:
        parts.append(f"activations were kept: {refused[-1].data['reason']}")
    if rungs:
        last = rungs[-1].data
        since = [event for event in rungs if not ooms or event.time >= ooms[-1].time] or rungs[-1:]
        largest = max(int(event.data["size"] or 0) for event in since)
        parts.append(f"batches ran in slices of at most {largest}")
        if last["exact"]:
            what = "numbers" if last.get("of") in ("evaluate", "predict") else "updates"
            parts.append(f"the {what} are those of whole batches, up to float rounding")
        else:
            parts.append(f"allowed by you, and not the math of whole batches: {last['changed']}")
        if last["random"]:
            parts.append("random layers drew other numbers of the same distribution")
    if any(event.kind == "leaner_update" for event in events):
        parts.append("large weights were updated some rows at a time")
    redrawn = sorted({str(event.data["redrawn"]) for event in ooms if event.data.get("redrawn")})
    if redrawn:
        parts.append(f"random operations that keep their state to themselves drew other numbers ({redrawn[0]})")
    elif ooms and not rungs:
        parts.append("the result is exactly that of plain fit")
    return "fitroom: " + "; ".join(parts) + "."
