"""The account at the end of a run: what happened, what was changed, what the result is."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from fitroom.core import Event, Record, leak_words
from fitroom.core.noun import Scalar
from fitroom.report.run_lines import settings
from fitroom.units import format_bytes


class Again(NamedTuple):
    """What to type for the same run again.

    Attributes:
        anew: to begin anew.
        resumed: to go on with it; None where there is nothing to go on from.
    """

    anew: str
    resumed: str | None = None


def account(record: Record, code: int, folder: Path, again: Again) -> str:
    """What happened, what was changed, what the result is, where the Record is, and what to type next."""
    troubles = _happened(record)
    place = str(folder)
    waited = [f"{one.data['evidence']}. Try: {one.data['advice']}" for one in record.of("waiting")[-1:]]
    but = "".join(f"\n  waited  {one}" for one in waited)
    if not troubles and code:
        go_on = f" To go on: {again.resumed}" if again.resumed else ""
        return f"{_end(code)}; nothing was changed. Record: {place}.{go_on}{but}"
    if not troubles:
        return f"memory sufficed, and nothing was changed. Record: {place}{but}"
    rows = [("happened", "; ".join(troubles))]
    rows += [("leak", leak_words.sentence(leak.data).removeprefix("leak at ")) for leak in leaks(record)]
    changed = changes(record)
    rows.append(("changed", "; ".join(changed) or "nothing"))
    rows.append(("result", _result(record, code)))
    rows += [("waited", one) for one in waited]
    rows.append(("record", place))
    rows.append(("next", _next(record, code, again)))
    width = max(len(name) for name, _ in rows)
    return "\n".join(["the account of this run", *(f"  {name:<{width}}  {text}" for name, text in rows)])


def _happened(record: Record) -> list[str]:
    found = []
    ooms, died = record.of("oom"), record.of("death")
    if ooms:
        found.append(f"a step ran out of memory {_times(len(ooms))}, and left no trace")
    if died:
        found.append(f"the process died of memory {_times(len(died))} ({died[-1].data['evidence']})")
    killed = record.of("killed")
    if killed:
        found.append(f"the process was ended by a signal {_times(len(killed))}")
    if record.of("continued"):
        found.append("an earlier run was gone on with")
    found += [f"going on was refused: {event.data['reason']}" for event in record.of("refused")]
    found += [str(event.data["changed"]) for event in record.of("given_up") if event.data.get("changed")]
    if record.of("failed_again"):
        found.append("started again, the script failed before its training")
    found += [f"it ended because memory ran out ({event.data['evidence']})" for event in record.of("ran_out")]
    found += [f"an isolated process died of memory ({one.data['evidence']})" for one in record.of("isolated_death")]
    leaking = len(leaks(record))
    if leaking:
        found.append("memory leaks" if leaking == 1 else f"memory leaks in {leaking} places")
    if record.of("mapped"):
        found.append("an array file did not fit into memory")
    if any(map(record.of, ("rung", "turned", "leaner_update", "loop_in_python"))) and not ooms and not died:
        found.append("memory was short, as planned for or known from an earlier run")
    shared = [(one.data["device"], one.data["pid"], one.data["name"]) for one in record.of("neighbour")]
    found += [
        f"{device} was shared with process {pid} ({name}), which grew or gave back" for device, pid, name in shared
    ]
    found += [f"{event.data['what']} ran unguarded" for event in record.of("left_alone")]
    found += [f"{event.data['setting']} had no effect" for event in record.of("setting_ignored")]
    return list(dict.fromkeys(found))


def leaks(record: Record) -> list[Event]:
    """What leaked to the end, each with its last figures."""
    known: dict[tuple[Scalar, Scalar], Event] = {}
    for event in record.events:
        key = (event.data.get("cause"), event.data.get("where"))
        if event.kind == "leak":
            known[key] = event
        elif event.kind == "leak_over":
            known.pop(key, None)
    return list(known.values())


def _acted(record: Record) -> list[str]:
    acts = record.of("leak_acted")
    if not acts:
        return []
    gained = sum(int(event.data["gained_bytes"] or 0) for event in acts)
    what = "; ".join(dict.fromkeys(str(event.data["action"]) for event in acts))
    return [f"against leaks, {_times(len(acts))}: {what} ({format_bytes(gained)} given back)"]


def changes(record: Record) -> list[str]:
    """What was changed to make it fit, one text each."""
    found = []
    kinds = ("loop_in_python", "rung", "turned", "leaner_update", "mapped")
    for event in (*record.of("restart")[-1:], *(event for kind in kinds for event in record.of(kind))):
        data = event.data
        if event.kind == "restart":
            found.append(f"started again from the top{settings(data)}")
        elif event.kind == "rung" and data["remedy"] == "micro_batch":
            found.append(f"{data.get('of', 'train')}: slices of at most {data['size']}")
        elif event.kind == "turned":
            found.append(str(data["words"]))
        elif event.kind == "rung" and data["remedy"] == "float32_data":
            found.append("arrays of 64 bits cast batch by batch")
        elif event.kind == "rung":
            found.append(f"{data.get('of', 'train')}: activations computed again instead of kept")
        elif event.kind == "loop_in_python":
            found.append(f"{data['of']}: its loop over the data ran in Python")
        elif event.kind == "mapped":
            found.append(f"{data['file']} mapped instead of read")
        else:
            found.append("large weights updated some rows at a time")
    return list(dict.fromkeys([*found, *(_acted(record) if leaks(record) else [])]))


def _result(record: Record, code: int) -> str:
    if code != 0:
        return f"none: {_end(code)}"
    if record.of("order_changed"):
        return "not that of an undisturbed run: its data came in another order after a restart"
    if record.of("callbacks_forgot"):
        return f"{_numbers(record)}, but for what callbacks make of what they no longer know"
    restarts = record.of("restart")
    if not restarts:
        return _numbers(record)
    if not all(event.data["input"] for event in restarts):
        return "not that of plain Python: what it had read from standard input was gone after the restart"
    return f"{_numbers(record)}; what it did and printed before a restart, it did and printed again"


def _end(code: int) -> str:
    return f"the script ended with signal {-code}" if code < 0 else f"the script ended with exit code {code}"


def _numbers(record: Record) -> str:
    turned = [event for event in record.of("turned") if not event.data["exact"]]
    if turned:
        return f"that of another training, as you allowed: {'; '.join(str(event.data['words']) for event in turned)}"
    inexact = [event for event in record.of("rung") if not event.data["exact"]]
    if inexact:
        return f"not that of whole batches, as you allowed: {inexact[-1].data['changed']}"
    sliced = [event for event in record.of("rung") if event.data["remedy"] == "micro_batch"]
    redrawn = any(event.data.get("random") for event in sliced) or any(
        event.data.get("redrawn") for event in record.of("oom")
    )
    if redrawn:
        return "that of plain Python, but for random layers, which drew other numbers of the same distribution"
    if sliced or record.of("loop_in_python"):
        return "that of plain Python with memory enough, up to float rounding"
    return "exactly that of plain Python with memory enough"


def _next(record: Record, code: int, again: Again) -> str:
    if code == 0:
        return f"{again.anew}  (starts with what was found)"
    if again.resumed is not None:
        return f"{again.resumed}  (goes on from what was saved)"
    if record.of("given_up") and record.of("death"):
        return "a machine with more memory, or a smaller model, input or batch"
    return "the error above tells what to do"


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
