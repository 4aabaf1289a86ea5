"""A script that is run up to its first training: estimated there, and stopped. Nothing is trained.

The process is not needed afterwards, so that whatever cannot be measured elsewhere is measured in it.
"""

from __future__ import annotations

import contextlib
import os
import sys

from fitroom.training.imports import after_import
from fitroom.training.tracebacks import hide_our_frames

TYPE_CHECKING = False  # as in typing: every Python that a script starts imports this module

if TYPE_CHECKING:
    from typing import Any, NoReturn

    from fitroom.training.trainings import Training


def install(told: dict[str, Any]) -> None:
    """Stop at the first training, or pass over each.

    Args:
        told: where the answer goes, the script's process, and what is asked: batch size, plan, budget, GPUs, and
            whether all trainings are wanted.
    """
    hide_our_frames()
    after_import("tensorflow", _no_gpus)
    after_import("keras", lambda: _keras(told))
    after_import("tf_keras", lambda: _old_keras(told))


def _keras(told: dict[str, Any]) -> None:
    import keras

    if keras.config.backend() != "tensorflow":
        _refuse(told, f"the Keras backend is {keras.config.backend()}, and fitroom knows TensorFlow's only")
    from fitroom.training import trainings

    trainings.install(lambda training: _take(told, training), told)


def _old_keras(told: dict[str, Any]) -> None:
    """Keras 2: its trainings are refused when they begin, for others import it without using it."""
    tf_keras = sys.modules["tf_keras"]

    def refuse(*args: Any, **kwargs: Any) -> None:
        _refuse(told, "the model is one of Keras 2 (tf_keras), and fitroom knows Keras 3 only")

    tf_keras.Model.fit = tf_keras.Model.train_on_batch = refuse


def _no_gpus() -> None:
    """Whatever the script sets in its environment: nothing is to run on a GPU."""
    import tensorflow as tf

    with contextlib.suppress(RuntimeError, ValueError):  # it is up already
        tf.config.set_visible_devices([], "GPU")


def _take(told: dict[str, Any], training: Training) -> None:
    """Answer with what a training takes; unless all are wanted, that is the end.

    Nothing that goes wrong here may reach the script: it might handle it, and go on to its end.
    """
    try:
        from fitroom.training import placing

        answer = placing.answer(training, told)
    except KeyboardInterrupt:
        _leave(told, 130)
    except Exception as error:
        answer = {"where": training.where, "refused": _why(error)}
    _answer(told, answer)
    if not told["all"]:
        _leave(told)


def _why(error: Exception) -> str:
    if type(error).__module__.startswith("fitroom."):
        return str(error)
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [line for line in lines if line and not line.startswith(("Graph execution error", "Detected at", "File"))]
    said = f"{type(error).__name__}: {(telling or [''])[0][:300]}"
    return f"{said}. It is run on small batches: sizes that are written into the step have to follow the batch"


def _refuse(told: dict[str, Any], reason: str) -> None:
    _answer(told, {"refused": reason})
    _leave(told)


def _answer(told: dict[str, Any], answer: dict[str, str]) -> None:
    import json

    with open(told["answers"], "a", encoding="utf-8") as file:  # noqa: PTH123 # pathlib would be another import
        file.write(json.dumps(answer) + "\n")


def _leave(told: dict[str, Any], code: int = 0) -> NoReturn:
    """End here and now, with every process of the script: nothing that it would still do is to happen."""
    import psutil

    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # closed by the script
            stream.flush()
    with contextlib.suppress(psutil.Error):
        script = psutil.Process(told["script"])
        for process in (*script.children(recursive=True), script):
            if process.pid != os.getpid():
                process.kill()
    os._exit(code)
