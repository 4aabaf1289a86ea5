"""Steps of `fit`, `evaluate` and `predict`, recorded one by one through a callback."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import keras

from fitroom.devices import pocket
from fitroom.estimator import profiler_seams
from fitroom.estimator.profiler_seams import Event


class Taken(NamedTuple):
    """What a step took: bytes in use at its peak, and time."""

    peak: int
    seconds: float


@contextmanager
def taken(found: list[Taken]) -> Iterator[None]:
    """Add what happens meanwhile takes."""
    pocket.reset_peak()
    start = time.perf_counter()
    yield
    found.append(Taken(pocket.use().peak, time.perf_counter() - start))


class Recorder:
    """Records every step but the first, which builds and traces.

    Args:
        kind: ``train``, ``test`` or ``predict``, as callbacks have it.

    Attributes:
        taken: what each step took, the first one's too.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.taken: list[Taken] = []
        self._recording = ExitStack()
        self._step = ExitStack()
        self._trace: profiler_seams.Trace | None = None

    def callback(self) -> Any:
        """What to give to the method that runs."""
        callback = keras.callbacks.Callback()
        setattr(callback, f"on_{self.kind}_batch_begin", self._begin)
        setattr(callback, f"on_{self.kind}_batch_end", self._end)
        return callback

    def steps(self) -> list[list[Event]]:
        """What happened in each recorded step, once it is closed."""
        assert self._trace is not None
        return between_marks(self._trace.events)

    def _begin(self, batch: int, logs: Any = None) -> None:
        self._step.enter_context(taken(self.taken))
        if batch == 0:
            return
        if self._trace is None:
            self._trace = self._recording.enter_context(profiler_seams.recording())
        self._step.enter_context(profiler_seams.marked(str(batch)))

    def _end(self, batch: int, logs: Any = None) -> None:
        self._step.close()

    def close(self) -> None:
        """Stop recording, however the last step ended."""
        self._recording.close()
        self._step.close()  # Keras begins a step before it finds that there are no more data: it is not recorded


def between_marks(events: list[Event]) -> list[list[Event]]:
    """The events of each marked stretch, in order."""
    found: list[list[Event]] = []
    inside = False
    for event in events:
        if event.kind in ("begin", "end"):
            inside = event.kind == "begin"
            if inside:
                found.append([])
        elif inside:
            found[-1].append(event)
    return found
