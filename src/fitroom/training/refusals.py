"""What a guarded step says where it cannot go on: the error, with the numbers, what to try, and the attempt itself."""

from __future__ import annotations

from typing import NamedTuple

from fitroom import oom
from fitroom.core import Attempt
from fitroom.devices.meter import Meter
from fitroom.remedies import micro_batch
from fitroom.steps.mixing import Obstacle
from fitroom.steps.step import Step
from fitroom.training.does_not_fit import DoesNotFit
from fitroom.units import format_bytes


class Tried(NamedTuple):
    """What was tried last: samples in the batch, samples at once, and whether activations were computed again."""

    samples: int
    at_once: int
    recomputes: bool


class Refusals:
    """The errors of one guarded step.

    Args:
        step: what was run.
        meter: the device's counters; None where it has none.
        allow: the remedies that may change the math.
        hint: what a user types to allow slices.
    """

    def __init__(self, step: Step, meter: Meter | None, allow: frozenset[str], hint: str) -> None:
        self._step = step
        self._meter = meter
        self._allow = allow
        self._hint = hint

    def standing(self, found: list[Obstacle]) -> list[Obstacle]:
        """What stands against slicing, and is not allowed."""
        return [one for one in found if not (one.can_be_allowed and micro_batch.NAME in self._allow)]

    def of_slices(self, obstacles: list[Obstacle], tried: Tried, found: oom.Exhaustion | None = None) -> DoesNotFit:
        """A batch that would have to be sliced, and must not be."""
        can_be_allowed = all(one.can_be_allowed for one in obstacles)
        more = f" (and {len(obstacles) - 1} more)" if len(obstacles) > 1 else ""
        verdict = "slicing it would change the math" if can_be_allowed else "it cannot be sliced"
        hint = f"{self._hint}, which runs slices instead of whole batches"
        return DoesNotFit(
            f"A batch of {tried.samples} does not fit, and {verdict}: {obstacles[0]}{more}",
            received=self._received(),
            hint=hint if can_be_allowed else "a smaller batch size",
            attempt=self._attempt(tried, found, str(obstacles[0]), self._hint if can_be_allowed else ""),
        )

    def does_not_fit(self, what: str, tried: Tried, found: oom.Exhaustion) -> DoesNotFit:
        """Something that no rung is left for."""
        wanted = format_bytes(found.wanted_bytes) if found.wanted_bytes else "more"
        return DoesNotFit(
            f"{what}: the step wanted {wanted} that there was not",
            received=self._received(),
            hint="a smaller model or input, a leaner optimizer, or a device with more memory",
            attempt=self._attempt(tried, found),
        )

    def _attempt(self, tried: Tried, found: oom.Exhaustion | None, refused: str = "", hint: str = "") -> Attempt:
        """The attempt that failed, for a diagnosis."""
        return Attempt(
            phase=self._step.phase,
            trains=self._step.trains,
            batch_size=tried.samples,
            at_once=tried.at_once,
            limit_bytes=self._meter.limit if self._meter else None,
            in_use_bytes=self._meter.current() if self._meter else None,
            model_bytes=self._step.own_bytes(),
            recomputes=tried.recomputes,
            refused=refused,
            hint=hint,
            layers=tuple(self._step.layers()),
            words=found.words if found else "",
        )

    def _received(self) -> str | None:
        if self._meter is None:
            return None
        return (
            f"{format_bytes(self._meter.limit)} on {self._meter.device}, "
            f"{format_bytes(self._meter.current())} of it in use before the step"
        )
