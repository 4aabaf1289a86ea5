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


@contextmanager
def recorded(steps: list[list[Event]], found: list[Taken]) -> Iterator[None]:
    """Add what the allocator does meanwhile, and what that takes; to read the recording comes on top."""
    with profiler_seams.recording() as trace, taken(found), profiler_seams.marked("step"):
        yield
    steps.append(_between_marks(trace.events))


class Recorder:
    """Records every step but the first, which builds and traces.

    Args:
        kind: ``train``, ``test`` or ``predict``, as callbacks have it.

    Attributes:
        taken: what each step took, the first one's too.
        steps: what happened in each recorded step.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.taken: list[Taken] = []
        self.steps: list[list[Event]] = []
        self._step = ExitStack()

    def callback(self) -> Any:
        """What to give to the method that runs."""
        callback = keras.callbacks.Callback()
        setattr(callback, f"on_{self.kind}_batch_begin", self._begin)
        setattr(callback, f"on_{self.kind}_batch_end", self._end)
        return callback

    def _begin(self, batch: int, logs: Any = None) -> None:
        self._step.enter_context(recorded(self.steps, self.taken) if batch else taken(self.taken))

    def _end(self, batch: int, logs: Any = None) -> None:
        self._step.close()

    def close(self) -> None:
        """Stop recording, however the last step ended."""
        self._step.close()


def _between_marks(events: list[Event]) -> list[Event]:
    """What happened between the two marks: batches are made ready before and after."""
    kinds = [event.kind for event in events]
    return events[kinds.index("begin") + 1 : kinds.index("end")]
