"""What is said of a run while it goes on: a line for each event that a user should know of."""

from __future__ import annotations

from collections.abc import Callable

from fitroom.core import Event, leak_words
from fitroom.core.noun import Scalar
from fitroom.units import MIB, format_bytes

_SILENT = {"progress", "training", "left", "script_over", "ended", "watch_lost"}  # for the record only
_SOON = 120.0  # seconds until memory is full


def line(event: Event, *, verbose: bool = False) -> str | None:
    """One line about an event; None where it is for the record only, or for those who want to know everything."""
    words = _LINES.get(event.kind)
    if words is not None:
        return words(event.data)
    if not verbose or event.kind in _SILENT:
        return None
    return f"{event.kind}: " + ", ".join(
        f"{key} {value}" for key, value in event.data.items() if value not in ("", None)
    )


def lines(worst: list[tuple[str, int]]) -> str:
    """The lines of the script that held most of the host's memory when most of it was held."""
    if not worst:
        return "no lines were recorded: the script's process did not come to its end"
    rows = [(format_bytes(nbytes), where) for where, nbytes in worst]
    width = max(len(size) for size, _ in rows)
    head = "lines that held the most when the most was held (host's memory; a line counts for all that it calls)"
    return "\n".join([head, *(f"  {size:>{width}}  {where}" for size, where in rows)])


def _rung(data: dict[str, Scalar]) -> str:
    of = f" in {data['of']}" if data.get("of") else ""
    if data["remedy"] == "micro_batch":
        return f"memory is short{of}: batches go on in slices of at most {data['size']}"
    if data["remedy"] == "float32_data":
        return "arrays of 64 bits are cast batch by batch"
    return f"memory is short{of}: activations are computed again instead of kept ({data['parts']} parts)"


def _death(data: dict[str, Scalar]) -> str:
    if data["face"] == "foreseen":
        return f"memory was about to run out ({data['evidence']}): the training was saved and its process ended"
    return f"the script's process died of memory ({data['evidence']})"


def _killed(data: dict[str, Scalar]) -> str:
    return f"the script's process was ended by signal {-int(data['code'] or 0)}, and nothing shows that it was memory"


def _restart(data: dict[str, Scalar]) -> str:
    goes_on = "; its trainings go on where they were saved last" if data["resumes"] else ""
    lost = "" if data["input"] else "; what it read from standard input cannot be read again"
    return f"starting it again from the top{settings(data)}{goes_on}{lost}"


def _resumed(data: dict[str, Scalar]) -> str:
    place = f"epoch {int(data['epoch'] or 0) + 1}, batch {int(data['step'] or 0) + 1}"
    through = f", after going through {data['taken']} batches of data again" if data["taken"] else ""
    return f"{_which(data)} goes on with {place}{through}"


def _neighbour(data: dict[str, Scalar]) -> str:
    used, before = int(data["used"] or 0), int(data["before"] or 0)
    who = f"process {data['pid']} ({data['name']})"
    change = f"took {format_bytes(used - before)} more" if used > before else f"gave {format_bytes(before - used)} back"
    left = format_bytes(int(data["budget_mib"] or 0) * MIB)
    return f"{data['device']} is shared: {who} {change} and holds {format_bytes(used)}; the budget is now {left}"


def _which(data: dict[str, Scalar]) -> str:
    return f"training {int(data['training'] or 0) + 1}"


def _failed_again(data: dict[str, Scalar]) -> str:
    return (
        f"started again from the top, the script failed before it came to its training ({data['said']}): "
        "what it does there does not work a second time. What was saved is kept"
    )


def settings(data: dict[str, Scalar]) -> str:
    """What a run is started again with, as the rest of a sentence."""
    parts = []
    if data["budget_mib"] is not None:
        parts.append(f", with {format_bytes(int(data['budget_mib']) * MIB)} for tensors")
    if int(data["slices"] or 1) > 1:
        parts.append(f", batches in {data['slices']} slices, or recomputed")
    return "".join(parts)


def _leak(data: dict[str, Scalar]) -> str | None:
    """Said while the script runs only where memory will be full soon: else the account tells."""
    left = data.get("seconds_left")
    is_soon = left is not None and float(left) < _SOON and data["cause"] != "second_step"
    return leak_words.sentence(data) if is_soon else None


_LINES: dict[str, Callable[[dict[str, Scalar]], str | None]] = {
    "leak": _leak,
    "rung": _rung,
    "planned": lambda data: str(data["reason"]),
    "turned": lambda data: str(data["words"]),
    "loop_in_python": lambda data: (
        f"memory may be short in {data['of']}: Python loops over its dataset instead, so that each step can be cut"
    ),
    "leaner_update": lambda data: "memory is short in the update: large weights are updated some rows at a time",
    "not_recomputed": lambda data: f"activations are kept: {data['reason']}",
    "left_alone": lambda data: f"does not guard {data['what']}: {data['reason']}",
    "mapped": lambda data: (
        f"{data['file']} does not fit into memory and is mapped instead"
        + ("" if data["writable"] else ", for reading only")
    ),
    "setting_ignored": lambda data: f"{data['setting']} on {data['device']} has no effect: the budget's limit stands",
    "record_elsewhere": lambda data: str(data["reason"]),
    "record_lost": lambda data: str(data["reason"]),
    "death": _death,
    "killed": _killed,
    "neighbour": _neighbour,
    "restart": _restart,
    "resumed": _resumed,
    "going_through": lambda data: f"going through {data['batches']} batches of data again, to where {_which(data)} was",
    "put_back": lambda data: f"{_which(data)} had come to its end: its results are put back",
    "failed_again": _failed_again,
    "checkpoint_lost": lambda data: (
        f"cannot save the training to {data['folder']} ({data['reason']}): it goes on, and is saved when it can be"
    ),
    "checkpoint_damaged": lambda data: (
        f"the checkpoint {data['file']} is damaged ({data['reason']}): "
        + ("the one before it is used" if data["earlier"] else "its training begins anew")
    ),
    "callbacks_forgot": lambda data: f"callbacks may not know what they saw before: {data['callbacks']}",
    "order_changed": lambda data: (
        f"the data of {_which(data)} come in another order than before, which no seed decides: "
        "each batch makes one update, but the result is not that of an undisturbed run"
    ),
    "refused": lambda data: f"cannot go on with {_which(data)}: {data['reason']}. What was saved is kept",
}
