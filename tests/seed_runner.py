"""Runs a script as ``__main__`` and writes down what it does not tell: errors that it caught, updates that it made.

Usage: python seed_runner.py RESULT.json SCRIPT [ARGUMENTS…]

Every `ResourceExhaustedError` is noted as it is made, because most of the scripts catch theirs; so is the error
that ends the script. The script itself is not changed. With SEED_STOP_AT_FIRST_ERROR set, the process ends there:
what the script does next can cost minutes. With SEED_GUARD set, models and training functions are guarded.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

from fitroom import oom


def describe(error: BaseException) -> dict[str, object]:
    found = oom.from_exception(error)
    return {
        "type": type(error).__name__,
        "text": str(error)[:500],
        "resource": found.resource.value if found else None,
        "certain": found.certain if found else None,
    }


def watch_tensorflow(errors: list[dict[str, object]], optimizers: list[object], write: Callable[[], None]) -> None:
    import keras
    import tensorflow as tf

    make_error = tf.errors.ResourceExhaustedError.__init__
    make_optimizer = keras.optimizers.Optimizer.__init__

    def noted_error(self, *args, **kwargs):
        make_error(self, *args, **kwargs)
        errors.append(describe(self))
        if os.environ.get("SEED_STOP_AT_FIRST_ERROR"):
            write()
            os._exit(0)

    def noted_optimizer(self, *args, **kwargs):
        make_optimizer(self, *args, **kwargs)
        optimizers.append(self)

    tf.errors.ResourceExhaustedError.__init__ = noted_error
    keras.optimizers.Optimizer.__init__ = noted_optimizer


def guard_every_fit(raised: list[str]) -> None:
    import keras

    import fitroom
    from fitroom.training import keras_seams

    plain = keras.Model.fit

    def fit(self, *args, **kwargs):
        if keras_seams.hooked(self) is not None:  # called by the guard
            return plain(self, *args, **kwargs)
        try:
            return fitroom.guard(self).fit(*args, **kwargs)
        except Exception as error:
            raised.append(type(error).__name__)
            raise

    keras.Model.fit = fit


def guard_every_call() -> None:
    """Guard a model when it is first called under a tape."""
    import keras

    import fitroom
    from fitroom.training import keras_seams

    plain = keras.Model.__call__

    def call(self, *args, **kwargs):
        if keras_seams.hooked(self) is None and keras_seams.is_recorded_eagerly():
            fitroom.guard(self)
        return plain(self, *args, **kwargs)

    keras.Model.__call__ = call


def guard_every_function(script: str) -> None:
    """Guard what the script makes a tf.function of."""
    import tensorflow as tf

    import fitroom

    plain = tf.function

    def function(python=None, **options):
        made = plain(python, **options)
        is_scripts = python is not None and python.__code__.co_filename == script
        return fitroom.step(made) if is_scripts else made

    tf.function = function


def count_updates(optimizer) -> int:
    import tensorflow as tf

    return int(tf.convert_to_tensor(optimizer.iterations.value))  # also under a distribution strategy


def peak() -> int | None:
    import tensorflow as tf

    try:
        return tf.config.experimental.get_memory_info("CPU:0")["peak"]
    except ValueError:
        return None


def main() -> None:
    result, script, *arguments = sys.argv[1:]
    errors: list[dict[str, object]] = []
    optimizers: list[object] = []
    ended_by = None
    raised: list[str] = []
    uses_tensorflow = "tensorflow" in Path(script).read_text()

    def write() -> None:
        facts = {
            "errors": errors,
            "ended_by": ended_by,
            "updates": sum(count_updates(optimizer) for optimizer in optimizers),
            "peak": peak() if uses_tensorflow else None,
            "raised_by_fit": raised,
        }
        Path(result).write_text(json.dumps(facts))

    if uses_tensorflow:
        watch_tensorflow(errors, optimizers, write)
        if os.environ.get("SEED_GUARD"):
            guard_every_fit(raised)
            guard_every_call()
            guard_every_function(script)
    sys.argv = [script, *arguments]
    try:
        runpy.run_path(script, run_name="__main__")
    except Exception as error:
        ended_by = describe(error)
    write()


if __name__ == "__main__":
    main()
