"""The guarded step: one batch in, every update made once, whatever runs out on the way."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from fitroom import oom
from fitroom.core import Plan
from fitroom.core.noun import Scalar
from fitroom.devices.meter import Meter
from fitroom.remedies import eval_batch, micro_batch, recompute, turns
from fitroom.steps import cutting, replicas, slicing
from fitroom.steps.recomputation import Chooser, Saving
from fitroom.steps.step import Step
from fitroom.training import keras_seams
from fitroom.training.does_not_fit import DoesNotFit
from fitroom.training.options import Options
from fitroom.training.refusals import Refusals, Tried
from fitroom.training.remembered import Remembered
from fitroom.training.rungs import MARGIN, Sizes

_TRIES = 3  # failures in a row with nothing smaller left to try


class GuardedStep:
    """A step, made safe.

    Args:
        step: what to run.
        options: what to do from the start, and what is allowed.
        meter: the device's counters; None where it has none.
        tell: takes each event: its kind and its data.
        remembered: sizes that were found in earlier runs.
        hint: what a user types to allow slices, unless the options tell.
    """

    def __init__(
        self,
        step: Step,
        options: Options,
        meter: Meter | None,
        tell: Callable[..., object],
        remembered: Remembered | None = None,
        hint: str = "fitroom.guard(model, allow=('micro_batch',))",
    ) -> None:
        self.step = step
        self.careful = options.careful
        self.meter = meter
        self.tell = tell
        self.remembered = remembered
        self._refusals = Refusals(step, meter, options.allow, options.hint or hint)
        self.sizes: dict[int, Sizes] = {}
        planned = options.plan.setting(micro_batch.NAME)
        self.slices = planned if isinstance(planned, int) else 1
        self.recomputes = options.plan.setting(recompute.NAME)  # as planned, or as found needed; None where it does not
        self._most = options.plan.setting(eval_batch.NAME)  # samples at once, in an evaluation
        self._looks_ahead = options.looks_ahead
        self._foreseen: int | None = None  # the size of slices that were planned ahead
        self._learns = False  # from the start
        self._largest = 1  # the largest slice of the attempt under way
        self._told: set[int] = set()  # the sizes that were told of
        self._failures = 0  # in a row
        self._is_first = True

    def __call__(self, data: Any, like: Any = None) -> Any:
        """Run one batch and return its result; `like` is what plain Keras would trace its step for."""
        data = as_tensors(data)
        if self._is_first:
            self._begin(data, like)
        samples = self.step.samples(data)
        sizes = self._sizes(data, samples)
        while True:
            found: oom.Exhaustion | None = None
            try:
                with keras_seams.guarded_step():
                    result = self._attempt(data, like, samples, sizes)
                self._tell_survived(samples)
                return result
            except BaseException as error:
                found = oom.from_exception(error) if isinstance(error, Exception) else None
                if found is None or not found.is_memory or isinstance(error, DoesNotFit):
                    self.step.roll_back()
                    raise
            # Out of the block: the failing frames, and what they held, are gone.
            self.step.roll_back()
            gc.collect()
            try:
                self._next_rung(data, like, sizes, found)
            except DoesNotFit:
                self.tell("does_not_fit")
                raise

    def is_open(self, samples: int) -> bool:
        """Whether nothing is known of how to run such batches: neither planned by hand nor seen in an earlier run."""
        is_known = self.remembered is not None and self.remembered.is_known(samples)
        return self._looks_ahead and self.slices == 1 and self.recomputes is None and self.careful == 1 and not is_known

    @property
    def is_sized(self) -> bool:
        """Whether slices are in force."""
        return any(one.size is not None for one in self.sizes.values())

    def learn(self) -> None:
        """Begin with small slices, which tell how large they may be: the whole batch, if that fits well."""
        self._learns = True

    def follow(self, plan: Plan, samples: int) -> None:
        """Run as was planned ahead, for batches of so many samples."""
        slices = plan.setting(micro_batch.NAME)
        if isinstance(slices, int):
            self._foreseen = -(-samples // slices)
        self.recomputes = plan.setting(recompute.NAME)
        if self.remembered is not None and not turns(plan):  # what turns the model over is asked for each time
            self.remembered.write_plan(samples, self.recomputes)

    def _begin(self, data: Any, like: Any) -> None:
        """Before the first batch: recompute where that is planned, or was needed in an earlier run."""
        self._is_first = False
        if self.recomputes is None and self.remembered is not None:
            self.recomputes = self.remembered.read_recompute(self.step.samples(data))
        if self.recomputes is None and self.careful > 1 and self.step.obstacles(data):
            self.recomputes = recompute.HIGH
        if self.recomputes is not None and self._recompute(data, like, cutting.chooser(self.recomputes)) is None:
            self.tell("not_recomputed", reason="the step runs eagerly, or has nothing to compute again")

    # --- one attempt -----------------------------------------------------------------------------------------------

    def _attempt(self, data: Any, like: Any, samples: int, sizes: Sizes) -> Any:
        if sizes.size is None or not samples:
            result = self.step.whole(data, like)
            self._failures = 0
            return result
        self._largest = 1
        result = self.step.sliced(data, self._bounds(samples, sizes))
        self._failures = 0
        if sizes.fits_whole(samples):
            self.sizes[samples] = Sizes()  # only for batches like this one: it was for them that it was learned
            return result
        self._tell_rung(data, sizes)
        return result

    def _bounds(self, samples: int, sizes: Sizes) -> Iterator[tuple[int, int]]:
        """Where to cut: evenly, once the size is known; until then each cut follows from the slice before it."""
        start = 0
        while start < samples and sizes.learning:
            free = self.meter.free() if self.meter else None
            size = sizes.next(samples, samples - start, free, self.step.most_per_sample() if start else None)
            self._largest = max(self._largest, size)
            if self.meter is None:
                yield start, start + size
            else:
                self.meter.reset()
                before = self.meter.currents()
                yield start, start + size
                sizes.seen(size, self.meter.grown(before))
            start += size
        if start < samples:
            for first, last in slicing.bounds(samples - start, sizes.size or samples):
                self._largest = max(self._largest, last - first)
                yield start + first, start + last

    # --- after a failure -------------------------------------------------------------------------------------------

    def _next_rung(self, data: Any, like: Any, sizes: Sizes, found: oom.Exhaustion) -> None:
        samples, phase = self.step.samples(data), self.step.phase
        failed = samples if sizes.size is None else self._largest
        told: dict[str, Scalar] = {"phase": phase, "samples": failed, "wanted_bytes": found.wanted_bytes}
        self.tell("oom", **told, evidence=found.evidence, redrawn=", ".join(sorted(self.step.hidden_random())))
        self._failures += 1
        # Nothing smaller is left to try. Where the error names no size it may pass: another process, a moment.
        hopeless = found.wanted_bytes is not None or self._failures >= _TRIES
        if phase == "update":
            if self.step.tighten():
                self.tell("leaner_update")
                return
            if self._failures >= (2 if found.wanted_bytes is not None else _TRIES):
                raise self._refusals.does_not_fit(
                    "The optimizer's update does not fit", self._tried(samples, failed), found
                )
            return
        obstacles = self.step.obstacles(data) if failed > 1 else []
        # Slices cost less time, where they are exact and there is something to cut.
        if (obstacles or failed <= 1) and self._recompute_more(data, like):
            self._failures = 0
            return
        if not samples:
            raise self._refusals.does_not_fit(
                "The batch does not fit, and has no batch axis to cut along", self._tried(0, 0), found
            )
        if failed <= 1:
            if hopeless:
                what = "A single sample does" if replicas.count(data) == 1 else "The smallest slices of all replicas do"
                raise self._refusals.does_not_fit(f"{what} not fit", self._tried(samples, failed), found)
            return
        refused = self._refusals.standing(obstacles)
        if refused:
            raise self._refusals.of_slices(refused, self._tried(samples, samples), found)
        sizes.failed(failed)
        self._failures = 0

    def _recompute_more(self, data: Any, like: Any) -> bool:
        """Have activations computed again, as few as should do; where that did not do, as many as can be."""
        if self.recomputes == recompute.HIGH:
            return False
        choose = cutting.chooser(recompute.HIGH)
        if self.recomputes is None and self.meter is not None:
            free = self.meter.free()
            choose = functools.partial(cutting.fewer, goal=int(free / MARGIN))
        saving = self._recompute(data, like, choose)
        if saving is None:
            self.recomputes = recompute.HIGH  # and is no way out
            return False
        self.recomputes = recompute.HIGH if self.recomputes is not None or self.meter is None else saving.kept
        if self.remembered is not None:
            self.remembered.write_recompute(self.recomputes)
        return True

    def _recompute(self, data: Any, like: Any, choose: Chooser) -> Saving | None:
        """Have activations computed again from now on."""
        saving = self.step.recompute(data, like, choose)
        if saving is not None:
            remedy = recompute.remedy(saving.kept, saves_bytes=saving.saved, time_factor=saving.time_factor)
            told: dict[str, Scalar] = {"kept_bytes": saving.kept, "saves_bytes": remedy.saves_bytes}
            told |= {"parts": saving.parts, "time_factor": round(remedy.time_factor, 2), "exact": remedy.exact}
            self.tell("rung", remedy=remedy.name, **told)
        return saving

    def _tell_survived(self, samples: int) -> None:
        """Tell of what ran out in an update that went on by itself."""
        survived = self.step.survived()
        for found in survived:
            told: dict[str, Scalar] = {"phase": "update", "samples": samples, "wanted_bytes": found.wanted_bytes}
            self.tell("oom", **told, evidence=found.evidence)
        if survived and self.step.tighten():
            self.tell("leaner_update")

    def _tell_rung(self, data: Any, sizes: Sizes) -> None:
        """Tell of the size in force, once it is known and new, and remember it for the next run."""
        if sizes.learning or sizes.size is None or sizes.size in self._told:
            return
        self._told.add(sizes.size)
        changed = "; ".join(map(str, self.step.obstacles(data)))
        told: dict[str, Scalar] = {
            "remedy": micro_batch.NAME,
            "size": sizes.size,
            "exact": not changed,
            "changed": changed,
            "random": ", ".join(self.step.random_layers()),
        }
        self.tell("rung", **told)
        if self.remembered is not None and self.slices == 1:
            self.remembered.write(self.step.samples(data), sizes.size)

    def _tried(self, samples: int, at_once: int) -> Tried:
        return Tried(samples, at_once, recomputes=self.recomputes is not None)

    def _sizes(self, data: Any, samples: int) -> Sizes:
        """What is known of sizes for batches like this one."""
        if samples not in self.sizes:
            known = next(iter(self.sizes.values()), None)
            sizes = Sizes()
            if self.slices > 1:
                sizes.size = max(1, -(-samples // self.slices))
                refused = self._refusals.standing(self.step.obstacles(data))
                if refused:
                    raise self._refusals.of_slices(refused, self._tried(samples, samples))
            elif known is not None and known.size is not None:
                # Another batch size (the last of an epoch, most often): what was learned holds for its slices.
                sizes = known
            elif isinstance(self._most, int) and samples > (most := max(1, self._most // replicas.count(data))):
                sizes.size = most if not self._refusals.standing(self.step.obstacles(data)) else None
            elif self._foreseen is not None and samples > self._foreseen:
                sizes.size = self._foreseen if not self._refusals.standing(self.step.obstacles(data)) else None
            elif self._learns:
                sizes.learn()
            elif self.remembered is not None:
                size = self.remembered.read(samples)
                if size is not None and not self._refusals.standing(self.step.obstacles(data)):
                    sizes.size = size
            if self.careful > 1 and sizes.size is None and not self._refusals.standing(self.step.obstacles(data)):
                sizes.size = max(1, -(-samples // self.careful))
            self.sizes[samples] = sizes
        return self.sizes[samples]


def as_tensors(data: Any) -> Any:
    """The data of a batch, arrays as tensors."""
    return tf.nest.map_structure(lambda leaf: leaf if leaf is None else _tensor(leaf), data)


def _tensor(leaf: Any) -> Any:
    leaf = replicas.unwrapped(leaf)
    is_ready = isinstance(leaf, (tf.Tensor, tf.RaggedTensor, tf.SparseTensor, tf.distribute.DistributedValues))
    return leaf if is_ready else tf.convert_to_tensor(leaf)
