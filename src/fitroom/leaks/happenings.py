"""What a script does again and again: steps, calls, models and datasets made, functions traced. Counted by place."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fitroom.leaks.places import Place

STEPS = ("step", "train_on_batch", "update", "call of a function", "call of the model", "batch")  # of a loop
TRAINING = ("step", "train_on_batch", "update")
CALLS = ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch")
_REMEMBERED = 8  # traces whose arguments are compared


class Made(NamedTuple):
    """Something that is made again and again.

    Attributes:
        kind: what: "model", "dataset", "generator", "function", "program".
        place: the line that makes it.
        also: the lines that led there, the nearest first.
    """

    kind: str
    place: Place
    also: tuple[Place, ...] = ()


@dataclass
class Traced:
    """A function, by its code, and how often it was traced.

    Attributes:
        name: what the user calls it.
        place: where it is defined; None where it is a library's.
        called: the line that called it last.
        calls: how often it was called; traces: how often that made a new graph.
        operations: of all its graphs together.
        arguments: what its last traces were given, by name.
        is_compiled: whether XLA compiles it.
    """

    name: str
    place: Place | None
    called: Place | None = None
    calls: int = 0
    traces: int = 0
    operations: int = 0
    arguments: list[dict[str, str]] = field(default_factory=list)
    is_compiled: bool = False

    def trace(self, arguments: dict[str, str], called: Place | None, operations: int) -> None:
        """Take a trace."""
        self.traces += 1
        self.called = called or self.called
        self.operations += operations
        self.arguments = [*self.arguments[-_REMEMBERED + 1 :], arguments]

    def changing(self) -> tuple[str, list[str]] | None:
        """The argument that was another one most often, and what it was."""
        names = {name: None for arguments in self.arguments for name in arguments}
        values = {name: [arguments.get(name, "") for arguments in self.arguments] for name in names}
        often = {name: len(set(given)) for name, given in values.items()}
        name = max(often, key=lambda one: often[one], default=None)
        return (name, values[name]) if name is not None and often[name] > 1 else None


class Happenings:
    """The counts; those by place are of all calls of Keras' methods, and of other turns that were looked at.

    Attributes:
        ours: how many things of each kind fitroom has made for itself; each may leave something behind.
    """

    def __init__(self) -> None:
        self.ours: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.calls: Counter[tuple[str, Place]] = Counter()
        self.made: Counter[Made] = Counter()
        self.traced: dict[Any, Traced] = {}

    def loop(self, *kinds: str) -> tuple[Place, int] | None:
        """The line that is called most often, of some kinds."""
        found = [(count, place) for (kind, place), count in self.calls.items() if kind in kinds]
        count, place = max(found, default=(0, None))
        return (place, count) if place is not None else None
