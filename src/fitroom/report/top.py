"""A run at a glance: what ``fitroom top`` shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from fitroom.core.plain import plain
from fitroom.report.sparks import bar, sparkline, split_bar
from fitroom.units import format_bytes

_FULL = 0.9  # of a limit: red
_NAME = 9  # characters of the first column
_ROOM = 8  # characters, for bars and lines that still tell something


@dataclass(frozen=True)
class Memory:
    """Memory against its limit, in bytes.

    Attributes:
        name: whose.
        now: in use.
        peak: the most so far.
        limit: what there is; None where nothing limits it.
        history: over the whole run, oldest first.
    """

    name: str
    now: int
    peak: int
    limit: int | None
    history: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class Use:
    """Something that is used.

    Attributes:
        name: what.
        text: how much.
        history: over the whole run, oldest first.
    """

    name: str
    text: str
    history: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class View:
    """All there is to see.

    Attributes:
        title: which run, or that there is none.
        state: whether it runs, and how it ended.
        is_running: whether it will change.
        memory: against its limits.
        use: of everything else.
        split: what the time went to: steps, waiting for batches, the rest; empty where nothing trains.
        in_force: what was changed to make it fit.
        survived: out-of-memory errors, deaths and kills.
        waits: what the training waits for, and what to do about it.
        leaks: what seems to leak.
        others: processes that share a GPU.
        notes: what else there is to say.
    """

    title: str
    state: str
    is_running: bool
    memory: tuple[Memory, ...] = ()
    use: tuple[Use, ...] = ()
    split: tuple[float, ...] = ()
    in_force: tuple[str, ...] = ()
    survived: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Picture:
    """A view, drawn for however wide the terminal is now.

    Args:
        view: what there is to see.
        is_cut: whether only as much is drawn as the terminal is high.
    """

    def __init__(self, view: View, *, is_cut: bool = False) -> None:
        self.view = view
        self.is_cut = is_cut

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self.is_cut:
            yield from self._parts(options.max_width)
            return
        lines = console.render_lines(Group(*self._parts(options.max_width)), options.reset_height(), pad=False)
        height = options.size.height
        shown = lines if len(lines) <= height else lines[: max(height - 1, 0)]
        for line in shown:
            yield from line
            yield Segment.line()
        if len(shown) < len(lines):
            yield Text(f"… {len(lines) - len(shown)} more lines: make the window taller", "dim", no_wrap=True)

    def _parts(self, width: int) -> Iterator[RenderableType]:
        view = self.view
        colour = "green" if view.is_running else "dim"
        yield Text.assemble((plain(view.title), "bold"), "  ", (view.state, colour), overflow="fold")
        yield self._meters(width)
        yield self._words(width)

    def _meters(self, width: int) -> Table:
        """Bars and sparklines, as wide as there is room; without them, where there is none."""
        view = self.view
        texts = [*(_amount(one, view) for one in view.memory), *(one.text for one in view.use)]
        middle = min(max(map(len, texts), default=0), 40)
        room = width - _NAME - middle - 6
        if room < _ROOM:
            table = _grid(_NAME, max(width - _NAME - 2, 1))
            names = [*(one.name for one in view.memory), *(one.name for one in view.use)]
            for name, text in zip(names, texts, strict=True):
                table.add_row(name, text)
            return table
        bars, line = room * 2 // 5, room - room * 2 // 5
        table = _grid(_NAME, bars, middle, line)
        for memory in view.memory:
            shown = memory.now if view.is_running else memory.peak
            share = shown / memory.limit if memory.limit else 0.0
            style = "red" if share >= _FULL else "cyan"
            drawn = Text(bar(share, bars) if memory.limit else "", style)
            history = sparkline(memory.history, line, float(memory.limit) if memory.limit else None)
            table.add_row(memory.name, drawn, _amount(memory, view), Text(history, style))
        for use in view.use:
            table.add_row(use.name, "", use.text, Text(sparkline(use.history, line), "blue"))
        return table

    def _words(self, width: int) -> Table:
        table = _grid(_NAME, max(width - _NAME - 2, 1))
        if self.view.split:
            table.add_row("time", _split(self.view.split, width - _NAME - 2))
        for name, texts, style in self._rows():
            for number, text in enumerate(texts):
                table.add_row("" if number else name, Text(plain(text), style))
        return table

    def _rows(self) -> Iterator[tuple[str, tuple[str, ...], str]]:
        view = self.view
        yield "in force", view.in_force, "yellow"
        yield "survived", view.survived, "yellow"
        yield "waits for", view.waits, "magenta"
        yield "leak?", view.leaks, "red"
        yield "shared", view.others, ""
        yield "", view.notes, "dim"


def _grid(*widths: int) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for number, width in enumerate(widths):
        is_name = number == 0
        table.add_column(width=max(width, 1), style="bold" if is_name else "", overflow="fold", no_wrap=is_name)
    return table


def _amount(memory: Memory, view: View) -> str:
    of = f" of {format_bytes(memory.limit)}" if memory.limit else ""
    if not view.is_running:
        return f"at most {format_bytes(memory.peak)}{of}"
    peak = f", peak {format_bytes(memory.peak)}" if memory.peak > memory.now else ""
    return f"{format_bytes(memory.now)}{of}{peak}"


def _split(shares: tuple[float, ...], room: int) -> Text:
    """Parts of the time as a bar and in words, in one line where there is room for that."""
    names = ("steps", "waiting for data", "other")
    words = "  ".join(f"{name} {share:.0%}" for name, share in zip(names, shares, strict=False))
    beside = min(room - len(words) - 2, 40)
    if beside >= _ROOM:
        return Text.assemble((split_bar(shares, beside), "green"), "  ", words)
    return Text.assemble((split_bar(shares, max(min(room, 40), 1)), "green"), "\n", words)
