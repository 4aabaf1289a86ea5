"""The process that measures: takes a task, builds the model again on the pocket device, answers with what it found."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import traceback
from typing import Any

from fitroom.errors import FitroomError
from fitroom.orphans import die_with


def main() -> None:
    """Take a task at standard input, and answer at standard output."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever the user's layers print is not an answer
    task = pickle.loads(sys.stdin.buffer.read())
    die_with(task["asker"])
    answer: dict[str, Any]
    try:
        answer = _measured(task)
    except FitroomError as error:
        answer = {"error": error}
    except Exception as error:
        answer = {"failed": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
    with answers:
        pickle.dump(answer, answers)
    sys.stderr.flush()
    os._exit(0)  # TensorFlow takes its time to go, and somebody waits


def _measured(task: dict[str, Any]) -> dict[str, Any]:
    import tensorflow as tf

    from fitroom.estimator import keras_seams, profiler_seams, samples, shipping
    from fitroom.estimator.measurement import Measurement
    from fitroom.estimator.tape import fixed
    from fitroom.remedies import turns
    from fitroom.steps.keras_seams import uses_keras_own_step
    from fitroom.steps.turning import turn

    threads = task["threads"]
    tf.config.threading.set_inter_op_parallelism_threads(threads["inter"])
    tf.config.threading.set_intra_op_parallelism_threads(threads["intra"])
    packed = shipping.opened(task["model"])
    with profiler_seams.recording() as begun:
        model = shipping.unpack(packed)
        turn(model, **turns(task["plan"]))
        x = task["x"] if task["x"] is not None else samples.of_inputs(model)
        if not model.built:
            with contextlib.suppress(NotImplementedError):  # a GAN need not have a call of its own
                model(samples.batch(x, 1))
        # In a step of somebody's own, each optimizer may have its own variables: its first step builds them.
        for optimizer in keras_seams.optimizers(model) if uses_keras_own_step(model) else ():
            if not optimizer.built:
                optimizer.build(model.trainable_variables)
    y = task["y"]
    if y is None and model.loss is not None:
        y = samples.of_targets(model, model(samples.batch(x, 1)))
    shipping.check(model, packed)
    measurement = Measurement(model, x, y, task["batch"], task["sizes"])
    return {"prelude": fixed(begun.events), **measurement.run(task["plan"], task["kinds"])}
