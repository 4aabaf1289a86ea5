"""What ``fitroom top`` looks at: a run's folder, or this machine where there is none."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

from fitroom.core import Record
from fitroom.core.leak_words import sentence
from fitroom.devices import gpu_use, host, timeline_file
from fitroom.devices.timeline import Figure, Span, Timeline, point
from fitroom.devices.usage import Usage
from fitroom.devices.waiting import ENOUGH
from fitroom.errors import FitroomError, UsageError
from fitroom.report.account import changes, leaks
from fitroom.report.sparks import resampled
from fitroom.report.top import Memory, Use, View
from fitroom.supervisor import run_folder
from fitroom.units import format_bytes

_COLUMNS = 120  # values of a sparkline
_A_WHILE = 30  # points, over which it shows whether a training still waits
_LONG_AGO = 60.0  # seconds: what was measured then is no longer so
_LATELY = 5  # points over which rates are means: steps and looks do not go hand in hand


def looking(name: str | None) -> Callable[[], View]:
    """What to call for a view: of this run, of the one under way, or of the machine.

    Raises:
        UsageError: if there is no such run.
    """
    folder = _named(name) if name is not None else None
    machine: Machine | None = None

    def look() -> View:
        nonlocal folder, machine
        folder = folder or _under_way()  # once it is there, it is shown to its end
        if folder is not None:
            return of_run(folder)
        machine = machine or Machine()
        return machine.look()

    return look


def _named(name: str) -> Path:
    places = [Path(name), Path(run_folder.HOME) / name]
    found = next(filter(_has_record, places), None)
    if found is None:
        known = sorted(one.parent.name for one in Path(run_folder.HOME).glob(f"*/{run_folder.RECORD}"))
        expected = f"a run's folder, or one of {', '.join(known)}" if known else "a run's folder"
        raise UsageError("No such run", received=name, expected=expected, hint="fitroom run train.py, which makes one")
    return found


def _has_record(folder: Path) -> bool:
    try:
        return (folder / run_folder.RECORD).exists()
    except OSError:  # a name that is too long, or a folder that is not ours to look into
        return False


def _under_way() -> Path | None:
    """The run that is under way here; the one that began last, if there are several."""
    found = [one.parent for one in Path(run_folder.HOME).glob(f"*/{run_folder.RECORD}")]
    return max(filter(run_folder.is_held, found), key=_changed, default=None)


def _changed(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:  # it has been removed meanwhile
        return 0.0


# --- a run ------------------------------------------------------------------------------------------------------------


def of_run(folder: Path) -> View:
    """A run as it is now, or as it was when it ended."""
    is_running = run_folder.is_held(folder)
    record, timeline, notes = Record(), Timeline(), []
    try:
        record = Record.read(folder / run_folder.RECORD)
    except FitroomError as error:
        notes += _troubles(folder / run_folder.RECORD, error)
    is_readable = not notes
    try:
        timeline = timeline_file.read(folder / timeline_file.NAME)
    except FitroomError as error:
        notes += _troubles(folder / timeline_file.NAME, error)
    spans = list(timeline)
    now = timeline.newest if is_running else _all(spans)
    now = now or point(time.time(), {})
    if is_running and spans and time.time() - now.last >= _LONG_AGO:
        notes.append(f"last measured {timedelta(seconds=round(time.time() - now.last))} ago")
    return View(
        title=folder.resolve().name,
        state=_state(record, spans, is_running),
        is_running=is_running,
        memory=tuple(_memories(spans, now)),
        use=tuple(_uses(spans, _all(spans[-_LATELY:]) or now if is_running else now)),
        split=_split(spans[-_LATELY:] if is_running else spans),
        in_force=tuple(changes(_since_restart(record)) or is_readable * ["nothing: batches run whole"]),
        survived=tuple(_survived(record) or is_readable * ["nothing: memory sufficed so far"]),
        waits=_waits(record, lately=_split(spans[-_A_WHILE:]) if is_running else ()),
        leaks=_leaks(record),
        others=_others(record),
        notes=(*notes, *(() if spans or notes else ("nothing was measured yet",))),
    )


def _troubles(path: Path, error: FitroomError) -> list[str]:
    """What is wrong with a file; nothing where there is only nothing in it yet."""
    with suppress(OSError):
        return [f"{path.name}: {error}"] if path.stat().st_size else []
    return []


def _state(record: Record, spans: Sequence[Span], is_running: bool) -> str:
    times = [*(event.time for event in record.events), *(one for span in spans for one in (span.first, span.last))]
    lasted = timedelta(seconds=round(max(times) - min(times))) if times else timedelta()
    if is_running:
        return f"running, {lasted} so far"
    ended = record.of("ended")
    if not ended:
        return f"ended after {lasted}"
    code = int(ended[-1].data["code"] or 0)
    how = "ended well" if code == 0 else f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"{how} after {lasted}"


def _memories(spans: Sequence[Span], now: Span) -> list[Memory]:
    gpus = sorted({name.removesuffix("_memory") for name in now.figures if name.endswith("_memory")})
    rows = [("device", "device", "device_peak", "device_limit")]
    rows += [(f"GPU:{one.removeprefix('gpu')}", f"{one}_memory", f"{one}_memory", f"{one}_limit") for one in gpus]
    rows += [("process", "rss", "rss", ""), ("host", "host", "host", "host_limit")]
    found = []
    for title, name, highest, limit in rows:
        value, most = now.mean(name), now.peak(limit)
        if value is not None:
            peak = max(one for span in spans if (one := span.peak(highest)) is not None)
            history = _history(spans, highest, Span.peak)
            found.append(Memory(title, int(value), int(peak), None if most is None else int(most), history))
    return found


def _uses(spans: Sequence[Span], now: Span) -> list[Use]:
    def mean(name: str) -> float:
        return now.mean(name) or 0.0

    def rate(name: str) -> str:
        return f"{format_bytes(int(mean(name)))}/s"

    found = []
    made = now.peak("made")
    if made is not None:
        text = f"{mean('steps'):.3g} a second, {int(made):,} in all"
        found.append(Use("steps", text, _history(spans, "steps", Span.mean)))
    for name in sorted(one for one in now.figures if one.startswith("gpu") and one.endswith("_use")):
        degrees = now.mean(name.replace("_use", "_temperature"))
        warm = "" if degrees is None else f", {degrees:.0f} °C"
        title = f"GPU:{name.removeprefix('gpu').removesuffix('_use')}"
        found.append(Use(title, f"computes {mean(name):.0%}{warm}", _history(spans, name, Span.mean)))
    if now.mean("cpu") is not None:
        found.append(Use("cores", f"{mean('cpu'):.1f} of {mean('cores'):g} busy", _history(spans, "cpu", Span.mean)))
    if now.mean("read") is not None:
        found.append(Use("disk", f"{rate('read')} in, {rate('written')} out", _history(spans, "read", Span.mean)))
    if now.mean("received") is not None:
        text = f"{rate('received')} in, {rate('sent')} out"
        found.append(Use("network", text, _history(spans, "received", Span.mean)))
    return found


def _history(spans: Sequence[Span], name: str, of: Callable[[Span, str], float | None]) -> tuple[float | None, ...]:
    return resampled(((one.first, one.last, value) for one in spans if (value := of(one, name)) is not None), _COLUMNS)


def _all(spans: Sequence[Span]) -> Span | None:
    """Spans as one, with means over their time: looks may follow each other soon."""
    if not spans:
        return None
    whole = functools.reduce(Span.merged, spans)
    lasted = [max(0.0, end - begin) for begin, end in pairwise([spans[0].first, *(one.last for one in spans)])]
    for name, figure in whole.figures.items():
        pairs = [(one.mean, time) for span, time in zip(spans, lasted, strict=True) if (one := span.figures.get(name))]
        over = sum(time for _, time in pairs)
        if over > 0:
            whole.figures[name] = Figure(sum(mean * time for mean, time in pairs) / over, figure.peak, figure.points)
    return whole


def _split(spans: Sequence[Span]) -> tuple[float, ...]:
    """What the time went to, since a first step was made."""
    over = _all(spans)
    stepping = over.mean("stepping") if over is not None else None
    if over is None or stepping is None:
        return ()
    waiting = over.mean("waiting") or 0.0
    whole = max(1.0, stepping + waiting)
    return stepping / whole, waiting / whole, max(0.0, 1 - (stepping + waiting) / whole)


def _since_restart(record: Record) -> Record:
    """What has happened since the script was last started."""
    begun = max((number for number, event in enumerate(record.events) if event.kind == "restart"), default=0)
    return Record(record.events[begun:])


def _survived(record: Record) -> list[str]:
    counts = (
        (len(record.of("oom")), "out of memory in a step, without a trace"),
        (len(record.of("death")), "the death of its process, of memory"),
        (len(record.of("killed")), "a kill"),
    )
    return [f"{count} × {what}" for count, what in counts if count]


def _waits(record: Record, lately: tuple[float, ...]) -> tuple[str, ...]:
    """What it was last seen to wait for: a cache may have filled since, or another training have begun."""
    found = record.of("waiting")
    if not found:
        return ()
    data = found[-1].data
    when = "earlier, " if lately and lately[1] < ENOUGH else ""
    return f"{when}{data['what']}: {data['evidence']}", f"→ {data['advice']}"


def _leaks(record: Record) -> tuple[str, ...]:
    return tuple(sentence(event.data).removeprefix("leak at ") for event in leaks(record))[-3:]


def _others(record: Record) -> tuple[str, ...]:
    """Those who share a GPU, as they were last told of."""
    last = {(event.data["device"], event.data["pid"]): event.data for event in record.of("neighbour")}
    return tuple(
        f"{data['device']}: process {data['pid']} ({data['name']}) holds {format_bytes(int(data['used'] or 0))}"
        for data in last.values()
        if data["used"]
    )


# --- no run -----------------------------------------------------------------------------------------------------------


class Machine:
    """This machine's devices, looked at again and again."""

    def __init__(self) -> None:
        self._timeline = Timeline()
        self._usage = Usage(os.getpid())
        self._gpus = gpu_use.GpuWatch()

    def look(self) -> View:
        """The devices now."""
        values = {
            name: one for name, one in self._usage.look().items() if name not in ("rss", "cpu", "read", "written")
        }
        cards = self._gpus.look({os.getpid()})
        for card in cards:
            values |= card.values()
        now = point(time.time(), values)
        self._timeline.add(now)
        spans = list(self._timeline)
        return View(
            title="no run under way here",
            state="this machine",
            is_running=True,
            memory=tuple(_memories(spans, now)),
            use=tuple(_uses(spans, now)),
            others=tuple(
                f"GPU:{card.gpu.number}: process {one.pid} ({one.name.rpartition('/')[2]}) holds "
                + ("an unknown amount" if one.used is None else format_bytes(one.used))
                for card in cards
                for one in card.others
            ),
            notes=tuple(_notes(has_gpu=bool(cards))),
        )


def _notes(*, has_gpu: bool) -> list[str]:
    limited = host.memory().limited_by
    found = [f"the host's memory is limited by {limited}"] if limited else []
    found += [] if has_gpu else ["GPU: none visible"]
    last = run_folder.last("", None)
    found += [f"the last run: fitroom top {last.name}"] if last is not None else []
    return [*found, "fitroom run train.py is shown here while it runs"]
