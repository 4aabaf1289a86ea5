"""A script that is run up to its first training: estimated there, and stopped. Nothing is trained.

The process is not needed afterwards, so that whatever cannot be measured elsewhere is measured in it.
"""

from __future__ import annotations

import os
import sys

from fitroom.training.imports import after_import
from fitroom.training.tracebacks import hide_our_frames

TYPE_CHECKING = False  # as in typing: every Python that a script starts imports this module

if TYPE_CHECKING:
    from typing import Any

    from fitroom.training.trainings import Training


def install(told: dict[str, Any]) -> None:
    """Stop at the first training, or pass over each.

    Args:
        told: where the answer goes, and what is asked: batch size, plan, budget, GPUs, and whether all trainings are
            wanted.
    """
    hide_our_frames()
    after_import("keras", lambda: _keras(told))


def _keras(told: dict[str, Any]) -> None:
    import keras

    if keras.config.backend() != "tensorflow":
        _answer(told, {"refused": f"the Keras backend is {keras.config.backend()}; fitroom estimates TensorFlow's"})
        _leave()
    from fitroom.training import trainings

    trainings.install(lambda training: _take(told, training), told)


def _take(told: dict[str, Any], training: Training) -> None:
    """Answer with what a training takes; unless all are wanted, that is the end."""
    from fitroom.errors import FitroomError
    from fitroom.training import placing

    try:
        answer = placing.answer(training, told)
    except FitroomError as error:
        answer = {"where": training.where, "refused": str(error)}
    _answer(told, answer)
    if not told["all"]:
        _leave()


def _answer(told: dict[str, Any], answer: dict[str, str]) -> None:
    import json

    with open(told["answers"], "a", encoding="utf-8") as file:  # noqa: PTH123 # pathlib would be another import
        file.write(json.dumps(answer) + "\n")


def _leave() -> None:
    """End here and now: neither the script's own clean-up nor what it does at exit is to happen."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(0)
