"""Loops that call the model under a `GradientTape` line by line, with no function to take apart.

What a tape has recorded cannot be taken back when memory runs out. So it must not come to that: before the first call
with a batch of a new shape, one and then four samples tell what a batch will take. Where it will not fit, the model
computes its outputs slice by slice, keeps nothing for the way back, and computes each slice again when the tape asks
for gradients, from the same seeds: the same gradients, at the memory of a slice. A slice that runs out all the same is
taken back, which its batch cannot be, and goes on in halves.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from fitroom import oom
from fitroom.core import Attempt
from fitroom.devices.meter import Meter
from fitroom.remedies import micro_batch
from fitroom.steps import mixing, random_seams, slicing
from fitroom.steps.accumulators import join
from fitroom.steps.keras_seams import count_regularisers
from fitroom.steps.state import Current, State
from fitroom.training import keras_seams
from fitroom.training.arguments import Arguments
from fitroom.training.does_not_fit import DoesNotFit
from fitroom.training.rungs import MARGIN
from fitroom.units import format_bytes

_SAFE = 4  # a batch whose outputs fit so many times needs no trial
_SAMPLES = (1, 4)
_ALLOW = "fitroom.guard(model, allow=('micro_batch',))"

_Bounds = tuple[int, int]  # of a slice


class EagerCalls:
    """Stands in for a model's `call`."""

    def __init__(
        self, model: Any, meter: Callable[[], Meter | None], allow: frozenset[str], tell: Callable[..., object]
    ) -> None:
        self.model = model
        self.meter = meter
        self.allow = allow
        self.tell = tell
        self.plain = model.call
        self._sizes: dict[Any, int] = {}
        self._inside = False
        self._current = Current()

    def hook(self) -> Any:
        """What to call instead of the model's `call`."""

        @functools.wraps(self.plain)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._inside or not keras_seams.is_recorded_eagerly():
                return self.plain(*args, **kwargs)
            self._inside = True
            try:
                return self._call(args, kwargs)
            finally:
                self._inside = False

        return call

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = _Call(self.plain, Arguments(args, kwargs))
        if call.samples < 2 * _SAMPLES[-1]:
            return self.plain(*args, **kwargs)
        if call.shapes not in self._sizes:
            self._sizes[call.shapes] = self._size(call)
        size = self._sizes[call.shapes]
        return self.plain(*args, **kwargs) if size >= call.samples else self._sliced(call, size)

    # --- how large may a slice be? ---------------------------------------------------------------------------------

    def _size(self, call: _Call) -> int:
        meter, samples = self.meter(), call.samples
        if meter is None:
            return samples
        free = meter.free()
        outputs = keras_seams.bytes_of_outputs(self.model)
        if outputs is not None and _SAFE * outputs * samples < free:
            return samples
        try:
            size, expected = self._fitting(call, free, meter)
        except tf.errors.ResourceExhaustedError:  # not even the trial fits: one sample at a time, if anything
            size, expected = 1, meter.limit
        except (tf.errors.InvalidArgumentError, ValueError, TypeError):
            return samples  # a few samples are not what this model takes
        if size >= samples or len(self.model.losses) > count_regularisers(self.model):
            return samples  # it fits; or the call adds losses, which would be a slice's
        self._check(call, expected, meter)
        self._tell_of_slices(size)
        return size

    def _tell_of_slices(self, size: int) -> None:
        changed = "; ".join(map(str, mixing.obstacles(self.model)))
        random = ", ".join(mixing.random_layers(self.model))
        self.tell("rung", remedy=micro_batch.NAME, size=size, changed=changed, exact=not changed, random=random)

    def _fitting(self, call: _Call, free: int, meter: Meter) -> tuple[int, int]:
        """How many samples fit, and what all of them would take."""
        (few, need), (more, need_more) = ((size, self._need(call, size, meter)) for size in _SAMPLES)
        slope = max((need_more - need) / (more - few), 1.0)
        expected = int(need + slope * (call.samples - few))
        if expected * MARGIN < free:
            return call.samples, expected
        return max(1, min(call.samples - 1, int(few + (free / MARGIN - need) / slope))), expected

    def _need(self, call: _Call, size: int, meter: Meter) -> int:
        state = self._state()
        before, part = state.read(), slicing.cut(call.batch, 0, size)
        meter.reset()
        resident = meter.current()
        with tf.GradientTape() as tape:
            try:
                outputs = call.run(part)
            finally:
                state.write(before)
        tape.gradient(outputs, [one.value for one in self.model.trainable_variables])
        return meter.peak() - resident

    def _check(self, call: _Call, expected: int, meter: Meter) -> None:
        found = mixing.obstacles(self.model)
        if not found and mixing.is_unknown(self.model) and not self._is_independent(call):
            found = [mixing.Obstacle("the model", "mixes samples: its outputs for slices are not those for the batch")]
        if found and not (all(one.can_be_allowed for one in found) and micro_batch.NAME in self.allow):
            raise DoesNotFit(
                f"A batch of {call.samples} needs about {format_bytes(expected)}, and slicing it would change the "
                f"math: {found[0]}",
                received=f"{format_bytes(meter.limit)} on {meter.device}, {format_bytes(meter.current())} in use",
                hint=f"{_ALLOW}, which runs slices instead of whole batches",
                attempt=Attempt(
                    phase="gradients",
                    trains=True,
                    batch_size=call.samples,
                    at_once=call.samples,
                    limit_bytes=meter.limit,
                    in_use_bytes=meter.current(),
                    refused=str(found[0]),
                    hint=_ALLOW,
                ),
            )

    def _is_independent(self, call: _Call) -> bool:
        state = self._state()
        before, few = state.read(), slicing.spread(call.batch, 4)
        with keras_seams.unrecorded(), random_seams.fixed_randomness():
            whole, *parts = (
                tf.nest.flatten(call.run(slicing.cut(few, start, stop))) for start, stop in ((0, 4), (0, 3), (3, 4))
            )
        state.write(before)
        joined = [tf.concat(leaves, 0) for leaves in zip(*parts, strict=True)]
        return all(np.allclose(one, other, rtol=1e-3, atol=1e-6) for one, other in zip(whole, joined, strict=True))

    def _state(self) -> State:
        """Seeds and statistics."""
        return self._current.of(self.model.non_trainable_variables)

    # --- slice by slice --------------------------------------------------------------------------------------------

    def _sliced(self, call: _Call, size: int) -> Any:
        state = self._state()
        structure: Any = None

        def forward(part: Any) -> list[Any]:
            nonlocal structure
            outputs = call.run(part)
            structure = tf.nest.map_structure(lambda leaf: None, outputs)
            return list(tf.nest.flatten(outputs))

        def run(*inputs: Any) -> Any:
            done: list[tuple[_Bounds, Any]] = []  # the slices, and the seeds that each began with
            parts: list[list[Any]] = []

            def there(bounds: _Bounds) -> None:
                seeds = state.read()
                parts.append(forward(_cut(inputs, bounds)))
                done.append((bounds, seeds))

            with keras_seams.unrecorded():
                self._each(slicing.bounds(call.samples, size), there, call)

            def gradient(*upstream: Any, variables: Any = None) -> Any:
                now, seeds = state.read(), dict(done)
                wanted = list(variables or [])
                of_inputs: list[list[Any]] = []
                of_variables: list[Any] = [None] * len(wanted)

                def back(bounds: _Bounds) -> None:
                    nonlocal of_variables
                    if bounds in seeds:
                        state.write(seeds[bounds])
                    part = _cut(inputs, bounds)
                    with tf.GradientTape() as tape:
                        tape.watch([one for one in part if one.dtype.is_floating])
                        outputs = forward(part)
                    found = tape.gradient(outputs, [*part, *wanted], _cut(upstream, bounds))
                    added = [_added(one, other) for one, other in zip(of_variables, found[len(part) :], strict=True)]
                    of_inputs.append(found[: len(part)])
                    of_variables = added

                self._each([bounds for bounds, _ in done], back, call, is_bound=self._draws_or_mixes())
                state.write(now)
                whole = [None if one[0] is None else tf.concat(one, 0) for one in zip(*of_inputs, strict=True)]
                return (whole, of_variables) if variables is not None else whole

            return [tf.concat(leaves, 0) for leaves in zip(*parts, strict=True)], gradient

        outputs = tf.custom_gradient(run)(*call.batch)
        return tf.nest.pack_sequence_as(structure, outputs)

    def _each(
        self, slices: list[_Bounds], run: Callable[[_Bounds], None], call: _Call, *, is_bound: bool = False
    ) -> None:
        """Run every slice; from one that does not fit on in halves, unless what it computes is bound to its size."""
        state, left = self._state(), list(slices)
        while left:
            before, (start, stop) = state.read(), left[0]
            found: oom.Exhaustion | None = None
            try:
                run((start, stop))
            except tf.errors.ResourceExhaustedError as error:
                found = oom.from_exception(error)
                if found is None or not found.is_memory or is_bound or stop - start < 2:
                    raise
            if found is None:
                del left[0]
                continue
            state.write(before)
            gc.collect()
            size = (stop - start + 1) // 2
            left = [(at + low, at + high) for at, end in left for low, high in slicing.bounds(end - at, size)]
            self._sizes[call.shapes] = min(size, self._sizes[call.shapes])
            self.tell("oom", phase="", samples=stop - start, wanted_bytes=found.wanted_bytes, evidence=found.evidence)
            self._tell_of_slices(size)

    def _draws_or_mixes(self) -> bool:
        """Whether slices of another size would not be given the same numbers again."""
        return bool(mixing.random_layers(self.model) or mixing.obstacles(self.model))


class _Call:
    """A call of the model, to be made with other samples."""

    def __init__(self, plain: Callable[..., Any], arguments: Arguments) -> None:
        self.samples = arguments.samples
        self._function = arguments.function(plain)
        batch, self._others = arguments.data
        self.batch = [tf.convert_to_tensor(one) for one in batch]
        self.shapes = tuple((one.dtype, *one.shape) for one in self.batch)

    def run(self, batch: list[Any]) -> Any:
        """The call, with another batch."""
        return self._function((batch, self._others))


def _cut(batch: Sequence[Any], bounds: _Bounds) -> list[Any]:
    return [one[slice(*bounds)] for one in batch]


def _added(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return one if other is None else other
    if isinstance(one, tf.IndexedSlices):
        return join([[one], [other]])[0]
    return one + other
