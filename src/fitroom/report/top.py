"""A run at a glance: what ``fitroom top`` shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from fitroom.report.sparks import bar, sparkline, split_bar
from fitroom.units import format_bytes

_FULL = 0.9  # of a limit: red
_NAME = 9  # characters of the first column


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
    """A view, drawn for however wide the terminal is now."""

    def __init__(self, view: View) -> None:
        self.view = view

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        view, width = self.view, options.max_width
        colour = "green" if view.is_running else "dim"
        yield Text.assemble((view.title, "bold"), "  ", (view.state, colour), overflow="fold")
        yield self._meters(width)
        yield self._words(width)

    def _meters(self, width: int) -> Table:
        """Bars and sparklines, as wide as there is room."""
        view = self.view
        texts = [*(_amount(one, view) for one in view.memory), *(one.text for one in view.use)]
        middle = min(max(map(len, texts), default=0), 40)
        room = max(width - _NAME - middle - 6, 0)
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
            table.add_row("time", _split(self.view.split, max(min(width // 3, 40), 10)))
        for name, texts, style in self._rows():
            for number, text in enumerate(texts):
                table.add_row("" if number else name, Text(text, style))
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
        table.add_column(width=max(width, 1), style="bold" if number == 0 else "", overflow="fold")
    return table


def _amount(memory: Memory, view: View) -> str:
    of = f" of {format_bytes(memory.limit)}" if memory.limit else ""
    if not view.is_running:
        return f"at most {format_bytes(memory.peak)}{of}"
    peak = f", peak {format_bytes(memory.peak)}" if memory.peak > memory.now else ""
    return f"{format_bytes(memory.now)}{of}{peak}"


def _split(shares: tuple[float, ...], width: int) -> Text:
    names = ("steps", "waiting for data", "other")
    words = "  ".join(f"{name} {share:.0%}" for name, share in zip(names, shares, strict=False))
    return Text.assemble((split_bar(shares, width), "green"), "  ", words)
