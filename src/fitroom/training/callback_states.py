"""What callbacks remember: written down with a checkpoint, and put back."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from fitroom.training.plain_data import NotPlain, decode, encode

_LARGE = 1 << 16  # bytes of an array: if it was there before and has not changed, it is what the callback was given
_NOT_ITS_OWN = {"model", "_model", "params", "validation_data"}
# What a process has open, or sets up for itself (a monitor's sign, with its operation), and where the script will
# look for files: not to be put back. By class.
_OF_THE_PROCESS = {
    "MonitorCallback": {"min_delta"},
    "CSVLogger": {"append_header"},
    "ModelCheckpoint": {"filepath"},
    "MemoryMonitor": {"monitor", "options"},
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

    def _read(self, callback: Any, given: dict[str, tuple[Any, int]], arrays: list[Any]) -> dict[str, Any]:
        state, left_out = {}, []
        ignored = _NOT_ITS_OWN.union(*(_OF_THE_PROCESS.get(one.__name__, ()) for one in type(callback).__mro__))
        for name, value in vars(callback).items():
            if name in ignored or _is_as_given(value, given.get(name)):
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
        kept = {"class": type(callback).__name__, "state": state, "left_out": left_out, "size": _size(callback)}
        return kept | {"file": encode(_content(callback), arrays)}

    def write(self, states: list[dict[str, Any]], arrays: list[Any]) -> list[str]:
        """Put back what each remembered; returns what could not be, in words."""
        lost = []
        for callback, kept in zip(self.callbacks, states, strict=False):
            if type(callback).__name__ != kept["class"]:
                lost.append(kept["class"])
                continue
            for name, value in kept["state"].items():
                _put(callback, name, decode(value, arrays))
            content = decode(kept["file"], arrays)
            if content is not None:
                _put_file(Path(callback.filepath), content.tobytes())
            if kept["left_out"]:
                lost.append(f"{kept['class']} ({', '.join(kept['left_out'])})")
        return lost

    def continue_files(self, states: list[dict[str, Any]]) -> None:
        """Before `fit`: have files that grow with the training end where they ended, and grow on from there."""
        for callback, kept in zip(self.callbacks, states, strict=False):
            if isinstance(callback, keras.callbacks.CSVLogger) and kept["size"] is not None:
                callback.filename = kept["state"]["filename"]  # which may be named after the time of day
                path = Path(callback.filename)
                if path.exists() and path.stat().st_size > kept["size"]:
                    os.truncate(path, kept["size"])
                callback.append = True


def _put(callback: Any, name: str, value: Any) -> None:
    """Have an attribute be `value`: the same object, where it can be, which the script may hold, too."""
    now = vars(callback).get(name)
    if type(now) is type(value) and isinstance(value, list):
        now[:] = value
    elif type(now) is type(value) and isinstance(value, (dict, set)):
        now.clear()
        now.update(value)
    elif isinstance(value, np.ndarray) and isinstance(now, np.ndarray) and now.shape == value.shape:
        now[...] = value
    else:
        callback.__dict__[name] = value


def _large_arrays(callback: Any) -> dict[str, tuple[Any, int]]:
    """The large arrays that a callback has from the start, with their checksums."""
    arrays = {name: one for name, one in vars(callback).items() if isinstance(one, np.ndarray) and one.nbytes > _LARGE}
    return {name: (one, _checksum(one)) for name, one in arrays.items()}


def _is_as_given(value: Any, given: tuple[Any, int] | None) -> bool:
    return given is not None and value is given[0] and _checksum(value) == given[1]


def _checksum(array: Any) -> int:
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data) if array.dtype != object else 0


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


def _content(callback: Any) -> Any:
    """The file in which a callback keeps the best model: a later training may write over it."""
    if not isinstance(callback, keras.callbacks.ModelCheckpoint) or "{" in callback.filepath:
        return None
    try:
        return np.fromfile(callback.filepath, np.uint8)
    except OSError:  # none yet
        return None


def _put_file(path: Path, content: bytes) -> None:
    """Have a file be what it was, at once or not at all."""
    if path.exists() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.writing")
    temporary.write_bytes(content)
    temporary.replace(path)
