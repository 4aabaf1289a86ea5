"""What happened in a run, event by event: JSON lines that survive a SIGKILL.

Every line is written whole, by one call, as it happens; the first names the schema. A line torn by a kill is
skipped and counted when reading, everything before it is there.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fitroom.core.noun import Noun, Scalar, decode, dump, parse, schema_of
from fitroom.errors import SchemaError, UsageError


@dataclass(frozen=True)
class Event:
    """One thing that happened.

    Attributes:
        kind: what, such as ``oom`` or ``rung``.
        time: when, in seconds since the epoch.
        data: the numbers and words that belong to it.
    """

    kind: str
    time: float
    data: dict[str, Scalar] = field(default_factory=dict)

    @classmethod
    def now(cls, kind: str, **data: Scalar) -> Event:
        """An event that happens now."""
        return cls(kind, time.time(), data)


@dataclass(frozen=True)
class Record(Noun):
    """The events of a run, in order.

    Attributes:
        events: what happened.
        torn: how many lines could not be read, because a kill cut them short.
    """

    events: tuple[Event, ...] = ()
    torn: int = 0

    def of(self, kind: str) -> tuple[Event, ...]:
        """The events of one kind."""
        return tuple(event for event in self.events if event.kind == kind)

    @classmethod
    def read(cls, path: str | Path) -> Record:
        """The record at `path`, to its last whole line.

        Raises:
            UsageError: if the file cannot be opened.
            SchemaError: if it is no record, or one of another version.
        """
        try:
            text = Path(path).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise UsageError("Cannot read the record", received=f"{path} ({error.strerror})") from error
        return cls.from_lines(text)

    @classmethod
    def from_lines(cls, text: str) -> Record:
        """The record that JSON lines hold."""
        events, torn = events_of(text)
        first = text.split("\n", 1)[0]
        if f'"{schema_of(cls)}"' not in first:
            raise SchemaError("Not a record", received=repr(first[:60]), expected=f"a first line with {schema_of(cls)}")
        return cls(events, torn)


def events_of(text: str) -> tuple[tuple[Event, ...], int]:
    """The events in some lines of a record, and how many lines were torn."""
    events, torn = [], 0
    for line in filter(str.strip, text.split("\n")):
        try:
            values = parse(line)
        except SchemaError:
            torn += 1
            continue
        if "schema" not in values:
            events.append(decode(Event, values, "Event"))
        elif values != {"schema": schema_of(Record)}:
            raise SchemaError("Not this release's record", received=line[:60], expected=schema_of(Record))
    return tuple(events), torn


class RecordFile:
    """Appends events to a record, one whole line each.

    A folder that is full or read-only is reported once and never stops the training.

    Args:
        path: the file; a record that is there is continued.
        complain: takes the report; a warning without it.
    """

    def __init__(self, path: str | Path, complain: Callable[[str], object] | None = None) -> None:
        self.path = Path(path)
        self._complain = complain or _warn
        self._descriptor: int | None = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            size = os.fstat(self._descriptor).st_size
            if size == 0:
                self._write(dump({"schema": schema_of(Record)}))
            elif os.pread(self._descriptor, 1, size - 1) != b"\n":
                self._write("")  # a kill tore the last line: begin a new one
        except OSError as error:
            self._give_up(error)

    @property
    def is_open(self) -> bool:
        """Whether events are still written."""
        return self._descriptor is not None

    def append(self, kind: str, **data: Scalar) -> Event:
        """Write one event, stamped with the time of day, and return it."""
        event = Event.now(kind, **data)
        if self._descriptor is not None:
            try:
                self._write(dump({"kind": event.kind, "time": event.time, "data": event.data}))
            except OSError as error:
                self._give_up(error)
        return event

    def close(self) -> None:
        """Close the file; later events are dropped."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _write(self, line: str) -> None:
        if self._descriptor is not None:
            content = line.encode() + b"\n"
            if os.write(self._descriptor, content) != len(content):
                raise OSError(28, "No space left on device")

    def _give_up(self, error: OSError) -> None:
        self.close()
        self._complain(f"cannot write its record to {self.path} ({error.strerror}); the training goes on without it.")


def _warn(what: str) -> None:
    warnings.warn(f"fitroom {what}", RuntimeWarning, stacklevel=5)
