"""The guarded step: one batch in, one update made, whatever runs out on the way."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from fitroom import oom
from fitroom.core import Plan
from fitroom.core.noun import Scalar
from fitroom.devices.meter import Meter
from fitroom.errors import UsageError
from fitroom.remedies import micro_batch
from fitroom.steps import extras, keras_seams, mixing, slicing
from fitroom.steps.gradients import Gradients
from fitroom.steps.state import State
from fitroom.steps.update import Update
from fitroom.training.does_not_fit import DoesNotFit
from fitroom.training.rungs import Sizes
from fitroom.training.uninterrupted import uninterrupted
from fitroom.units import format_bytes

_TRIES = 3  # failures in a row with nothing smaller left to try


class GuardedStep:
    """A model's training step, made safe.

    Args:
        model: compiled.
        plan: what to do from the start.
        allow: the remedies that may change the math.
        meter: the device's counters; None where it has none.
        tell: takes each event: its kind and its data.
    """

    def __init__(
        self, model: Any, plan: Plan, allow: frozenset[str], meter: Meter | None, tell: Callable[..., object]
    ) -> None:
        self.model = model
        self.allow = allow
        self.meter = meter
        self.tell = tell
        self.gradients = Gradients(model)
        self.update: Update | None = None
        self.sizes: dict[int, Sizes] = {}
        planned = plan.setting(micro_batch.NAME)
        self.slices = planned if isinstance(planned, int) else 1
        self._before: tuple[State, list[Any]] | None = None
        self._ready_to_slice = False
        self._largest = 1  # the largest slice of the attempt under way
        self._told: set[int] = set()  # the sizes that were told of
        self._like: Any = None
        self._phase = "gradients"
        self._failures = 0  # in a row

    def __call__(self, data: Any, like: Any = None) -> Any:
        """Train on one batch and return its logs; `like` is what plain Keras would trace its step for."""
        self._like = like
        data = tf.nest.map_structure(lambda leaf: leaf if leaf is None else _tensor(leaf), data)
        sizes = self._sizes(data)
        while True:
            found: oom.Exhaustion | None = None
            try:
                return self._attempt(data, sizes)
            except BaseException as error:
                found = oom.from_exception(error) if isinstance(error, Exception) else None
                if found is None or not found.is_memory or isinstance(error, DoesNotFit):
                    self._roll_back()
                    raise
            # Out of the block: the failing frames, and what they held, are gone.
            self._roll_back()
            gc.collect()
            self._next_rung(data, sizes, found)

    # --- one attempt -----------------------------------------------------------------------------------------------

    def _attempt(self, data: Any, sizes: Sizes) -> Any:
        self._phase = "gradients"
        if sizes.size is None:
            logs, gradients = self._whole(data)
        else:
            logs, gradients = self._sliced(data, sizes)
        if self.update is None:
            self.update = Update(self.model, self.gradients.variables)
        self._phase = "update"
        with uninterrupted():
            self.update(gradients)
            self._before = None
        self._failures = 0
        self._tell_rung(sizes)
        return logs

    def _whole(self, data: Any) -> tuple[Any, list[Any]]:
        self.gradients.trace(data, self._like)
        self._remember()
        return self.gradients.whole(data)

    def _sliced(self, data: Any, sizes: Sizes) -> tuple[Any, list[Any]]:
        samples = slicing.batch_size(data)
        self._largest = 1
        self._prepare_slices(data)
        self.gradients.begin(data)
        self.gradients.trace_slice(slicing.cut(data, 0, 1), samples)
        self._remember()
        totals = self.gradients.totals(data)
        tracked: list[Any] | None = None
        sparse: list[list[Any]] = []
        for start, stop in self._bounds(samples, sizes):
            fed, rows = self._one_slice(slicing.cut(data, start, stop), stop - start, sizes, samples, totals)
            tracked = fed if tracked is None else [one + other for one, other in zip(tracked, fed, strict=True)]
            sparse.append(rows)
        logs = self.gradients.finish(tracked or [], samples)
        return logs, self.gradients.gradients(sparse)

    def _bounds(self, samples: int, sizes: Sizes) -> Any:
        """Where to cut: evenly, once the size is known; until then each cut follows from the slice before it."""
        start = 0
        while start < samples and sizes.learning:
            free = self.meter.limit - self.meter.current() if self.meter else None
            size = sizes.next(samples - start, free)
            self._largest = max(self._largest, size)
            yield start, start + size
            start += size
        if start < samples:
            for first, last in slicing.bounds(samples - start, sizes.size or samples):
                self._largest = max(self._largest, last - first)
                yield start + first, start + last

    def _one_slice(self, part: Any, size: int, sizes: Sizes, samples: int, totals: Any) -> tuple[list[Any], list[Any]]:
        if self.meter is None or not sizes.learning:
            return self.gradients.slice(part, samples, totals)
        self.meter.reset()
        resident = self.meter.current()
        result = self.gradients.slice(part, samples, totals)
        sizes.seen(size, self.meter.peak() - resident)
        return result

    # --- after a failure -------------------------------------------------------------------------------------------

    def _remember(self) -> None:
        state = self.gradients.state()
        self._before = state, state.read()

    def _roll_back(self) -> None:
        if self._before is not None:
            state, values = self._before
            state.write(values)
            self._before = None
        self.gradients.clear()

    def _next_rung(self, data: Any, sizes: Sizes, found: oom.Exhaustion) -> None:
        samples = slicing.batch_size(data)
        failed = samples if sizes.size is None else self._largest
        self.tell("oom", phase=self._phase, samples=failed, wanted_bytes=found.wanted_bytes, evidence=found.evidence)
        self._failures += 1
        # Nothing smaller is left to try. Where the error names no size it may pass: another process, a moment.
        hopeless = found.wanted_bytes is not None or self._failures >= _TRIES
        if self._phase == "update":
            if self.update is not None and self.update.tighten():
                self.tell("leaner_update")
                return
            if self._failures >= (2 if found.wanted_bytes is not None else _TRIES):
                raise self._does_not_fit("The optimizer's update does not fit", found)
            return
        if failed <= 1:
            if hopeless:
                raise self._does_not_fit("A single sample does not fit", found)
            return
        obstacles = self._obstacles()
        if obstacles:
            raise self._refusal(obstacles, samples)
        sizes.failed(failed)
        self._failures = 0

    def _tell_rung(self, sizes: Sizes) -> None:
        """Tell of the size in force, once it is known and new."""
        if sizes.learning or sizes.size is None or sizes.size in self._told:
            return
        self._told.add(sizes.size)
        changed = "; ".join(map(str, mixing.obstacles(self.model)))
        data: dict[str, Scalar] = {
            "remedy": micro_batch.NAME,
            "size": sizes.size,
            "exact": not changed,
            "changed": changed,
            "random": ", ".join(mixing.random_layers(self.model)),
        }
        self.tell("rung", **data)

    def _obstacles(self) -> list[mixing.Obstacle]:
        """What stands against slicing, and is not allowed."""
        found = mixing.obstacles(self.model)
        if not keras_seams.uses_keras_own_step(self.model):
            found.append(mixing.Obstacle("The model's own train_step", "cannot be weighed slice by slice", False))
        return [one for one in found if not (one.can_be_allowed and micro_batch.NAME in self.allow)]

    def _refusal(self, obstacles: list[mixing.Obstacle], samples: int) -> DoesNotFit:
        can_be_allowed = all(one.can_be_allowed for one in obstacles)
        more = f" (and {len(obstacles) - 1} more)" if len(obstacles) > 1 else ""
        hint = "fitroom.guard(model, allow=('micro_batch',)), which trains on slices instead of whole batches"
        return DoesNotFit(
            f"A batch of {samples} does not fit, and slicing it would change the math: {obstacles[0]}{more}",
            received=self._received(),
            hint=hint if can_be_allowed else "a smaller batch size",
        )

    def _does_not_fit(self, what: str, found: oom.Exhaustion | None) -> DoesNotFit:
        wanted = format_bytes(found.wanted_bytes) if found and found.wanted_bytes else "more"
        return DoesNotFit(
            f"{what}: the step wanted {wanted} that there was not",
            received=self._received(),
            hint="a smaller model or input, a leaner optimizer, or a device with more memory",
        )

    def _received(self) -> str | None:
        if self.meter is None:
            return None
        return (
            f"{format_bytes(self.meter.limit)} on {self.meter.device}, "
            f"{format_bytes(self.meter.current())} of it in use before the step"
        )

    # --- slices ----------------------------------------------------------------------------------------------------

    def _sizes(self, data: Any) -> Sizes:
        """What is known of sizes for batches like this one."""
        samples = _first_axis(data)
        if samples not in self.sizes:
            known = next(iter(self.sizes.values()), None)
            sizes = Sizes()
            if self.slices > 1:
                sizes.size = max(1, -(-samples // self.slices))
                if self._obstacles():
                    raise self._refusal(self._obstacles(), samples)
            elif known is not None and known.size is not None:
                # Another batch size (the last of an epoch, most often): what was learned holds for its slices.
                sizes = known
            self.sizes[samples] = sizes
        return self.sizes[samples]

    def _prepare_slices(self, data: Any) -> None:
        if not self._ready_to_slice:
            self.gradients.trace(data, self._like)
            self.gradients.extras = extras.kinds(self.model, data)
            self._ready_to_slice = True


def _tensor(leaf: Any) -> Any:
    is_ready = isinstance(leaf, (tf.Tensor, tf.RaggedTensor, tf.SparseTensor, tf.distribute.DistributedValues))
    return leaf if is_ready else tf.convert_to_tensor(leaf)


def _first_axis(data: Any) -> int:
    try:
        return slicing.batch_size(data)
    except UsageError:
        return 0
