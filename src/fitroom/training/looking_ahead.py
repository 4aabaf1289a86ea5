"""Before a training's first step: does it fit, and if not, how? So that what can be predicted never runs out.

the traced step ─ its shapes ─► an upper bound ─ under half of what there is? ─► nothing more
                                                └─ a process of its own measures small steps ─► Plan
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from fitroom.core import Budget, Plan
from fitroom.devices.meter import Meter
from fitroom.estimator.estimating import estimate
from fitroom.steps import replicas, slicing
from fitroom.steps.step import Step
from fitroom.training import keras_seams
from fitroom.training.planning import planned
from fitroom.units import MIB, format_bytes

_EASILY = 0.5  # of what there is: an upper bound below it needs no closer look
_SURELY = 0.7  # the same, where nothing closer can be had: what is free is not in one piece
_UPDATE = 3  # times the weights: gradients, what the update makes of them, slots that are not there yet
_COMPILED = 1.5  # XLA takes one block for all that a step needs at once (806 for 564 MiB, in one case)
LOOPS = 40  # times what a recurrent model's layers give: what their loops keep at most
_AHEAD = 2  # batches that the input pipeline has ready; on a CPU they are in the same memory
_PATIENCE = 2.0  # seconds until a word is said


def bound(step: Step, data: Any, like: Any, *, compiled: bool, model: Any = None) -> int | None:
    """What a step takes at most beside what is there, by the shapes in its own trace; None where that does not tell."""
    found = step.most_alive(data, like)
    if found is None:
        outputs = keras_seams.bytes_of_outputs(model) if model is not None else None
        if outputs is None:
            return None
        found = LOOPS * outputs * step.samples(data)
    weights = sum(map(_bytes_of, step.trained()))
    # A trace has every replica's operations, in turns; they run at the same time.
    return (int(found * (_COMPILED if compiled else 1)) + _UPDATE * weights) * replicas.count(data)


def fits_easily(most: int | None, meter: Meter) -> bool:
    """Whether what a step takes at most is so little that nobody needs to look closer."""
    return most is not None and meter.current() + most <= _EASILY * meter.limit


def fits_surely(most: int | None, meter: Meter) -> bool:
    """Whether what a step takes at most is there."""
    return most is not None and meter.current() + most <= _SURELY * meter.limit


def foreseen(model: Any, step: Step, data: Any, meter: Meter, allowed: frozenset[str], *, turns: bool) -> Plan | None:
    """The plan for a training that may not fit; None where nothing can be said of it.

    Args:
        model: compiled, and built.
        step: its step.
        data: the first batch.
        meter: what there is.
        allowed: remedies that may change the math.
        turns: whether the model itself may be turned over.
    """
    samples = _samples(data)
    if step.samples(data) < 2:
        return None
    with _patience(f"looking how batches of {samples} fit {format_bytes(meter.limit)}"):
        try:
            one = replicas.parts(slicing.cut(data, 0, 1))[0]
            x, y, _ = keras.utils.unpack_x_y_sample_weight(one)
            inputs, targets = _arrays(x), _arrays(y)
            return planned(
                lambda chosen: estimate(model, samples, inputs, targets, plan=chosen),
                _room(model, data, meter),
                allowed,
                step.obstacles(data),
                turns=turns,
                is_running=True,
            )
        except Exception:  # whatever a model or its data make of it: what happens shows when it happens
            return None


def _room(model: Any, data: Any, meter: Meter) -> Budget:
    """What there is for a replica, less what is there of others: the model and a batch are in the estimate."""
    optimizer = getattr(model, "optimizer", None)
    on_cpu = meter.device.startswith("CPU")
    sharing = replicas.count(data) if on_cpu else 1  # logical CPUs share one arena
    resident = sharing * sum(
        map(_bytes_of, [*model.variables, *(optimizer.variables if optimizer is not None else ())])
    )
    shares = replicas.parts(data)[:sharing]
    batch = sum((leaf.shape.num_elements() or 0) * leaf.dtype.size for leaf in _tensors(shares))
    others = max(meter.current() - resident - batch, 0)
    ahead = _AHEAD * batch if on_cpu else 0
    mib = max((meter.limit - others - ahead) // MIB // sharing, 1)
    return Budget(mib, meter.device, "pocket" if on_cpu else "gpu", enforced=True, origin="free")


def _samples(data: Any) -> int:
    """The samples of a batch, on all replicas together."""
    return sum(slicing.batch_size(share) for share in replicas.parts(data))


def _bytes_of(variable: Any) -> int:
    return int(np.prod(variable.shape)) * int(np.dtype(keras.backend.standardize_dtype(variable.dtype)).itemsize)


def _tensors(data: Any) -> list[Any]:
    leaves = tf.nest.flatten(data, expand_composites=True)  # a ragged tensor is a flat one, and where its rows end
    return [leaf for leaf in leaves if isinstance(leaf, tf.Tensor)]


def _arrays(data: Any) -> Any:
    return None if data is None else keras.tree.map_structure(lambda leaf: np.asarray(leaf), data)


@contextmanager
def _patience(what: str) -> Iterator[None]:
    """Say what is going on, once it takes longer than a moment."""
    timer = threading.Timer(_PATIENCE, lambda: print(f"fitroom: {what} …", file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
