"""How long steps of plain Keras' wait: they take their batch inside, where the wait for it does not show.

What shows is whether a batch was ready, how long one takes to make, and how long a step takes that found one ready.
"""

from __future__ import annotations

from collections import deque

from fitroom.devices.waiting import Pipeline

_AS_LONG = 0.8  # of a step's time, spent making its batch: then the step has waited for that


class PlainWaits:
    """The waits of one training."""

    def __init__(self) -> None:
        self._pipeline: Pipeline | None = None
        self._is_new = False
        # Seconds of calls that found a batch ready. The least of them counts: other work on the machine only adds.
        self._computing: deque[float] = deque(maxlen=32)

    def saw(self, pipeline: Pipeline) -> None:
        """What the pipeline was like just before a call."""
        self._pipeline, self._is_new = pipeline, True

    def of(self, took: float, steps: int = 1) -> float:
        """How many of the seconds that a call took it has waited.

        Args:
            took: seconds.
            steps: made in this call.
        """
        found, is_new, self._is_new = self._pipeline, self._is_new, False
        if found is None:
            return 0.0
        making = found.seconds * steps
        if not found.is_ahead:
            return min(took, making)
        if found.empty if found.empty is not None else making >= _AS_LONG * took:
            return max(0.0, took - min(self._computing)) if self._computing else took
        if is_new:
            self._computing.append(took)
        return 0.0
