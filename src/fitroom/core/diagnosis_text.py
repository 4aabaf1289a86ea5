"""A Diagnosis as text that a tired person understands: what ran out, why, what to do."""

from __future__ import annotations

import re

from fitroom.units import format_bytes

TYPE_CHECKING = False

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from fitroom.core.diagnosis import Diagnosis

_BAR = 30  # characters
_EVIDENCE = 4  # lines
_OTHERS = 5  # further failures
_WHAT = {
    "gpu_memory": "The GPU's memory ran out",
    "host_memory": "The host's memory ran out",
    "tpu_memory": "The TPU's memory ran out",
    "disk": "The disk is full",
    "file_descriptors": "Too many files are open",
    "message_size": "A message is too large",
    "proto_2gb": "A graph is larger than 2 GB",
    "not_exhaustion": "Nothing ran out",
}
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
_PHASES = {"": "", "forward": ", on the way forth", "backward": ", on the way back", "update": ", in the update"}
_KEEP = "  $ python train.py 2>&1 | tee train.log; fitroom diagnose train.log"
_COMMAND = re.compile(r"[A-Z_]+=\S+ |(?:fitroom|python|nvidia-smi|kill|df|ulimit)(?: |$)")
# When and where in a runtime's source a line was written: for those who wrote it.
_STAMP = re.compile(
    r"^(?:[\d\-]{8,10}[ T][\d:.,]+:?\s+)?(?:[IWEF]\d{0,4}\s+(?:[\d:.]+\s+)*)?(?:\S+\.(?:cc|h|cpp|py):\d+\]?:?\s+)"
)
# Whatever was read may hold them, and a terminal would obey.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def headline(diagnosis: Diagnosis) -> str:
    """What ran out, and why, on one line."""
    what = _what(diagnosis)
    if not diagnosis.ran_out and not diagnosis.advice:
        return what
    why = diagnosis.summary or diagnosis.cause.value
    return _plain(f"{what if why == what else f'{what}: {why}'} ({_sure(diagnosis)})")


def rendered(diagnosis: Diagnosis) -> Group:
    """The whole of it; further failures in short."""
    from rich.console import Group
    from rich.text import Text

    parts = [*_one(diagnosis)]
    if diagnosis.others:
        parts.insert(0, Text(f"{len(diagnosis.others) + 1} failures; this is the first\n", style="bold"))
    for number, other in enumerate(diagnosis.others[:_OTHERS], 2):
        lines = f", line {other.evidence[0].line}" if other.evidence and other.evidence[0].line else ""
        parts.append(Text(f"\nFailure {number} of {len(diagnosis.others) + 1}{lines}", style="bold"))
        parts.append(Text(f"  {headline(other)}"))
        parts += _facts(other)
        parts += _advice(other, 1)
    rest = len(diagnosis.others) - _OTHERS
    if rest > 0:
        parts.append(Text(f"\n{rest} more failures; --json has them all", style="dim"))
    return Group(*parts)


def text(diagnosis: Diagnosis, width: int = 100) -> str:
    """The same without colour."""
    from rich.console import Console

    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(rendered(diagnosis))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _one(diagnosis: Diagnosis) -> list[Text | Table]:
    from rich.text import Text

    what = _what(diagnosis)
    if not diagnosis.ran_out and not diagnosis.advice:
        parts: list[Text | Table] = [Text(what, style="bold green")]
        if diagnosis.evidence:
            return [*parts, Text(_plain(diagnosis.summary)), *_lines(diagnosis)]
        return [
            *parts,
            Text("If it died all the same, its last words are missing here. Keep them:", style="dim"),
            Text(_KEEP),
        ]
    why = "" if diagnosis.summary == what else f"{diagnosis.summary}  "
    style = "bold red" if diagnosis.ran_out else "bold green"
    parts = [Text(what, style=style), Text(_plain(f"{why}({_sure(diagnosis)})"), style="bold")]
    parts += _facts(diagnosis)
    if diagnosis.why:
        parts += [Text("\nWhy", style="bold"), *(_item("•", words) for words in diagnosis.why)]
    if diagnosis.evidence:
        parts += [Text("\nIt says", style="bold"), *_lines(diagnosis)]
    if diagnosis.advice:
        parts += [Text("\nWhat to do", style="bold"), *_advice(diagnosis)]
    if diagnosis.futile:
        parts += [Text("\nWhat will not help", style="bold"), *(_item("•", words) for words in diagnosis.futile)]
    also = ", ".join(cause.value for cause in diagnosis.alternatives)
    more = f"It could also be: {also}. " if also else ""
    parts.append(Text(f"\n{more}More: fitroom explain {diagnosis.cause.value}", style="dim"))
    return parts


def _what(diagnosis: Diagnosis) -> str:
    if (diagnosis.allocator or "").startswith("bfc_cpu"):
        return f"The memory that tensors may take on the CPU ran out{_where(diagnosis)}"
    return f"{_WHAT[diagnosis.resource.value]}{_where(diagnosis)}"


def _where(diagnosis: Diagnosis) -> str:
    """On which of several devices, as far as that says something: most programs have one."""
    name = _device(diagnosis)
    if diagnosis.replica is None:
        is_known = re.search(r"GPU:[1-9]\d*$", name) is not None and diagnosis.resource.value == "gpu_memory"
        return f" on {name}" if is_known else ""
    number = diagnosis.replica
    ordinal = _ORDINALS[number] if number < len(_ORDINALS) else f"{number + 1}th"
    return f" on {name}, the {ordinal} replica" if name else f" on the {ordinal} replica"


def _device(diagnosis: Diagnosis) -> str:
    """The short name of the device: without a job, which is always the same."""
    return (diagnosis.device or "").removeprefix("/job:localhost/replica:0/task:0/").removeprefix("device:").lstrip("/")


def _sure(diagnosis: Diagnosis) -> str:
    words = "nearly certain" if diagnosis.confidence >= 0.8 else "likely" if diagnosis.confidence >= 0.5 else "a guess"
    return f"{words}, {diagnosis.confidence:.0%}"


def _facts(diagnosis: Diagnosis) -> list[Table]:
    rows = []
    if diagnosis.wanted_bytes is not None or diagnosis.tensor_shape:
        axes = " × ".join(map(str, diagnosis.tensor_shape or ()))
        size = format_bytes(diagnosis.wanted_bytes) if diagnosis.wanted_bytes is not None else ""
        tensor = f"{axes} {diagnosis.dtype or ''}".strip()
        rows.append(("asked for", f"{size} ({tensor})" if size and tensor else size or tensor))
    if diagnosis.op:
        layer = f", layer {diagnosis.layer}" if diagnosis.layer and diagnosis.layer != diagnosis.op else ""
        rows.append(("by", f"{diagnosis.op}{layer}{_PHASES[diagnosis.phase]}"))
    elif diagnosis.phase:
        rows.append(("when", _PHASES[diagnosis.phase].removeprefix(", ")))
    place = ", ".join(filter(None, (_device(diagnosis), diagnosis.allocator)))
    if place:
        rows.append(("of", place))
    used, limit = diagnosis.in_use_bytes, diagnosis.limit_bytes
    if limit is not None and used is not None:
        full = min(1.0, used / limit) if limit else 1.0
        bar = "█" * round(full * _BAR) + "░" * (_BAR - round(full * _BAR))
        rows.append(("in use", f"{bar} {format_bytes(used)} of {format_bytes(limit)}"))
    elif limit is not None:
        rows.append(("limit", format_bytes(limit)))
    if diagnosis.largest_free_bytes is not None:
        share = (
            f", {diagnosis.fragmentation:.0%} of what is free is in smaller ones"
            if (diagnosis.fragmentation or 0) >= 0.01
            else ""
        )
        rows.append(("free", f"the largest block is {format_bytes(diagnosis.largest_free_bytes)}{share}"))
    if diagnosis.times > 1:
        rows.append(("times", str(diagnosis.times)))
    return [_table(rows)] if rows else []


def _lines(diagnosis: Diagnosis) -> list[Table]:
    lines = {_cut(_STAMP.sub("", one.text)): one.line for one in reversed(diagnosis.evidence)}
    in_order = sorted(lines.items(), key=lambda one: one[1] or 0)
    return [_table([(f"line {line}" if line else "", words) for words, line in in_order[:_EVIDENCE]])]


def _advice(diagnosis: Diagnosis, most: int = 9) -> list[Table]:
    rows: list[tuple[str, str]] = []
    for number, one in enumerate(diagnosis.advice[:most], 1):
        rows.append((f"{number}.", one.what))
        if one.effect:
            rows.append(("", f"→ {one.effect}"))
        if one.code:
            rows.append(("", f"$ {one.code}" if _COMMAND.match(one.code) else one.code))
    return [_table(rows)]


def _item(mark: str, words: str) -> Table:
    return _table([(mark, words)])


def _table(rows: list[tuple[str, str]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(f"  {_plain(name)}"), Text(_plain(value)))
    return table


def _cut(words: str, most: int = 180) -> str:
    return words if len(words) <= most else f"{words[: most - 1]}…"


def _plain(words: str) -> str:
    return _CONTROLS.sub("", words.replace("\n", " "))
