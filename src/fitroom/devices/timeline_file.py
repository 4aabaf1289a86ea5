"""A timeline on disk: one line as each point comes, written anew now and then, so that it stays small.

It lies beside the Record, not in it: a Record is only ever appended to, and this is thinned.
"""

from __future__ import annotations

import csv
import math
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from fitroom.core.noun import dump, parse
from fitroom.devices.timeline import Figure, Span, Timeline
from fitroom.errors import SchemaError, UsageError

NAME = "timeline.jsonl"
SCHEMA = "fitroom/timeline/1"
_LINES = 4096  # at most, and then it is thinned


class TimelineFile:
    """A timeline that is written down as it grows; where that fails, it goes on without its file.

    Args:
        path: the file; one that is there is continued. None for no file.
    """

    def __init__(self, path: Path | None) -> None:
        self.timeline = Timeline()
        self._path = path
        self._descriptor: int | None = None
        self._lines = 0
        self._lock = threading.Lock()  # two monitors of one process have threads of their own
        if path is not None and path.exists():
            with suppress(UsageError):
                self.timeline = read(path)
        self._rewrite()

    def add(self, span: Span) -> None:
        """Take a point, and write it down."""
        with self._lock:
            self._add(span)

    def _add(self, span: Span) -> None:
        self.timeline.add(span)
        if self._descriptor is None:
            return
        if self._lines >= _LINES:
            self._rewrite()
            return
        line = _line(span).encode() + b"\n"
        try:
            if os.write(self._descriptor, line) != len(line):
                self.close()  # a full disk
            self._lines += 1
        except OSError:
            self.close()

    @property
    def is_open(self) -> bool:
        """Whether what comes is written."""
        return self._descriptor is not None

    def close(self) -> None:
        """Close the file; what comes later is not written."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _rewrite(self) -> None:
        """Put the thinned timeline in the file's place, at once or not at all."""
        self.close()
        if self._path is None:
            return
        lines = [dump({"schema": SCHEMA}), *map(_line, self.timeline)]
        temporary = self._path.with_name(f".{self._path.name}.writing")
        try:
            temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
            temporary.replace(self._path)
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND)
            self._lines = len(lines)
        except OSError:
            self._path = None


def read(path: Path) -> Timeline:
    """The timeline in a file; lines that a kill has torn are skipped.

    Raises:
        UsageError: if the file cannot be opened.
        SchemaError: if it is none, or one of another version.
    """
    try:
        first, *lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise UsageError("Cannot read the timeline", received=f"{path} ({error.strerror})") from error
    if f'"{SCHEMA}"' not in first:
        raise SchemaError("Not a timeline", received=repr(first[:60]), expected=f"a first line with {SCHEMA}")
    found = Timeline()
    for line in filter(str.strip, lines):
        with suppress(SchemaError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
            found.add(_span(parse(line)))
    return found


def write_csv(path: Path, timeline: Timeline) -> None:
    """The timeline as a table: a row per span, the mean and the peak of each series."""
    spans = list(timeline)
    names = sorted({name for span in spans for name in span.figures})
    temporary = path.with_name(f".{path.name}.writing")
    with temporary.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["first", "last", "points", *(f"{name}{kind}" for name in names for kind in ("", "_peak"))])
        for span in spans:
            cells = [one for name in names for one in (span.mean(name), span.peak(name))]
            table.writerow([f"{span.first:.3f}", f"{span.last:.3f}", span.points, *map(_cell, cells)])
    temporary.replace(path)


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}" if value != int(value) else str(int(value))


def _line(span: Span) -> str:
    if span.points == 1:
        return dump({"t": span.first, "v": {name: _short(figure.peak) for name, figure in span.figures.items()}})
    figures = {name: [_short(one.mean), _short(one.peak), one.points] for name, one in span.figures.items()}
    return dump({"t": [span.first, span.last], "n": span.points, "v": figures})


def _short(value: float) -> float:
    return int(value) if value == int(value) else value


def _span(values: dict[str, Any]) -> Span:
    time = values["t"]
    if not isinstance(time, list):
        figures = {name: Figure(_number(one), _number(one)) for name, one in values["v"].items()}
        return Span(_moment(time), _moment(time), 1, figures)
    figures = {name: Figure(_number(one[0]), _number(one[1]), _count(one[2])) for name, one in values["v"].items()}
    return Span(_moment(time[0]), _moment(time[1]), _count(values["n"]), figures)


def _number(value: Any) -> float:
    if not math.isfinite(number := float(value)):
        raise ValueError(value)
    return number


def _moment(value: Any) -> float:
    if not 0 <= (moment := float(value)) < 1e11:  # the year 5138: no calendar goes on for ever
        raise ValueError(value)
    return moment


def _count(value: Any) -> int:
    if not 1 <= (count := int(value)) < 1 << 62:
        raise ValueError(value)
    return count
