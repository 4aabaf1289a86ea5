"""What callbacks remember: written down with a checkpoint, and put back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from fitroom.training.plain_data import NotPlain, decode, encode

_LARGE = 1 << 16  # bytes of an array: if it was there before, it is what the callback was given
_NOT_ITS_OWN = {"model", "_model", "params", "validation_data"}
# What a process has open, or sets up for itself (a monitor's sign, with its operation): not to be put back. By class.
_OF_THE_PROCESS = {
    "MonitorCallback": {"min_delta"},
    "CSVLogger": {"append_header"},
    "TensorBoard": {"_profiler_started", "_is_tracing", "_should_trace", "_start_batch", "_stop_batch"},
}


class CallbackStates:
    """The states of a training's callbacks.

    Args:
        callbacks: as given to `fit`.
    """

    def __init__(self, callbacks: Sequence[Any]) -> None:
        self.callbacks = list(callbacks)
        self._given = [_large_arrays(one) for one in callbacks]

    def read(self, arrays: list[Any]) -> list[dict[str, Any]]:
        """What each remembers, as JSON; arrays go to `arrays`."""
        return [self._read(*both, arrays) for both in zip(self.callbacks, self._given, strict=True)]

    def _read(self, callback: Any, given: set[int], arrays: list[Any]) -> dict[str, Any]:
        state, left_out = {}, []
        ignored = _NOT_ITS_OWN.union(*(_OF_THE_PROCESS.get(one.__name__, ()) for one in type(callback).__mro__))
        for name, value in vars(callback).items():
            if name in ignored or id(value) in given:
                continue
            mark = len(arrays)
            try:
                state[name] = encode(value, arrays)
            except NotPlain:
                del arrays[mark:]
                if not _is_kerass(callback):
                    left_out.append(name)
        if isinstance(callback, keras.callbacks.LambdaCallback):
            left_out.append("what its functions remember")
        return {"class": type(callback).__name__, "state": state, "left_out": left_out, "file": _size(callback)}

    def write(self, states: list[dict[str, Any]], arrays: list[Any]) -> list[str]:
        """Put back what each remembered; returns what could not be, in words."""
        lost = []
        for callback, kept in zip(self.callbacks, states, strict=False):
            if type(callback).__name__ != kept["class"]:
                lost.append(kept["class"])
                continue
            for name, value in kept["state"].items():
                callback.__dict__[name] = decode(value, arrays)
            if kept["left_out"]:
                lost.append(f"{kept['class']} ({', '.join(kept['left_out'])})")
        return lost

    def continue_files(self, states: list[dict[str, Any]]) -> None:
        """Before `fit`: have files that grow with the training end where they ended, and grow on from there."""
        for callback, kept in zip(self.callbacks, states, strict=False):
            if isinstance(callback, keras.callbacks.CSVLogger) and kept["file"] is not None:
                path = Path(callback.filename)
                if path.exists() and path.stat().st_size > kept["file"]:
                    os.truncate(path, kept["file"])
                callback.append = True


def _large_arrays(callback: Any) -> set[int]:
    return {id(one) for one in vars(callback).values() if isinstance(one, np.ndarray) and one.nbytes > _LARGE}


def _is_kerass(callback: Any) -> bool:
    return type(callback).__module__.split(".")[0] == "keras"


def _size(callback: Any) -> int | None:
    """How large the file is that a callback writes line by line."""
    if not isinstance(callback, keras.callbacks.CSVLogger):
        return None
    try:
        return Path(callback.filename).stat().st_size
    except OSError:
        return None
