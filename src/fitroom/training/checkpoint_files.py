"""Checkpoints on disk: whole or not there at all, checked when they are read, and nothing in them is ever run.

A checkpoint is a ZIP file: ``about.json``, and the bytes of each array. ZIP keeps a checksum of each part, and its list
of contents stands at the end, so that a half-written file is none.
"""

from __future__ import annotations

import contextlib
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

SCHEMA = "fitroom/checkpoint/1"
_KEPT = 2  # of each training
_FINISHED = "finished"
_WRITING = ".writing"
_DAMAGED = ".damaged"
_ABOUT = "about.json"


class Damaged(Exception):
    """The file is not what was written."""


class Checkpoint(NamedTuple):
    """What was read.

    Attributes:
        about: everything but the arrays.
        arrays: NumPy arrays.
        is_finished: whether the training had come to its end.
    """

    about: dict[str, Any]
    arrays: list[Any]
    is_finished: bool


class Folder:
    """The checkpoints of a run.

    Args:
        path: where; made when the first is written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def write(self, training: int, steps: int | None, about: dict[str, Any], arrays: list[Any]) -> int:
        """Write a checkpoint, after `steps` steps of a training, or None at its end; returns its bytes.

        Older ones go once it is there. If it raises, everything is as it was.

        Raises:
            OSError: if it cannot be written.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        name = f"{training:06}-{_FINISHED if steps is None else f'{steps:012}'}"
        temporary = self.path / f"{name}{_WRITING}"
        try:
            with temporary.open("wb") as file:
                _pack(file, about, arrays)
                file.flush()
                os.fsync(file.fileno())
                size = file.tell()
            temporary.replace(self.path / f"{name}.zip")
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        _sync(self.path)
        kept = 1 if steps is None else _KEPT
        for old in list(self._of(training))[kept:]:
            with contextlib.suppress(OSError):
                old.unlink()
        return size

    def read(self, training: int, complain: Callable[..., object]) -> Checkpoint | None:
        """A training's newest checkpoint that is whole.

        Those that are not are put aside; `complain` takes the `file` and `reason` of each, and whether there is an
        `earlier` one.
        """
        paths = list(self._of(training))
        for number, path in enumerate(paths):
            try:
                about, arrays = unpack(path)
            except Damaged as error:
                complain(file=path.name, reason=str(error), earlier=number + 1 < len(paths))
                with contextlib.suppress(OSError):
                    path.replace(path.with_suffix(_DAMAGED))
                continue
            return Checkpoint(about, arrays, path.stem.endswith(_FINISHED))
        return None

    def newest(self) -> Path | None:
        """The file that was written last, whichever training it is of."""
        found = sorted(self.path.glob("*.zip"), reverse=True) if self.path.is_dir() else []
        return found[0] if found else None

    def size(self) -> int:
        """The bytes of all of them."""
        return sum(path.stat().st_size for path in self.path.glob("*.zip"))

    def clean(self) -> None:
        """Remove what a kill left half-written."""
        for path in self.path.glob(f"*{_WRITING}"):
            with contextlib.suppress(OSError):
                path.unlink()

    def remove(self) -> None:
        """Remove all of them."""
        for pattern in ("*.zip", f"*{_WRITING}", f"*{_DAMAGED}"):
            for path in self.path.glob(pattern):
                with contextlib.suppress(OSError):
                    path.unlink()
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def _of(self, training: int) -> Iterator[Path]:
        """A training's checkpoints, newest first: letters sort after digits."""
        return iter(sorted(self.path.glob(f"{training:06}-*.zip"), reverse=True))


def _pack(file: Any, about: dict[str, Any], arrays: list[Any]) -> None:
    import numpy as np

    contents = [{"dtype": one.dtype.name, "shape": list(one.shape)} for one in arrays]
    with zipfile.ZipFile(file, "w") as archive:
        for number, one in enumerate(arrays):
            with archive.open(f"{number:06}", "w", force_zip64=True) as part:
                part.write(np.ascontiguousarray(one).reshape(-1).view(np.uint8).data)
        archive.writestr(_ABOUT, json.dumps({"schema": SCHEMA, **about, "arrays": contents}))


def about(path: Path) -> dict[str, Any]:
    """What a checkpoint says of itself.

    Raises:
        Damaged: if that cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            found: dict[str, Any] = json.loads(archive.read(_ABOUT))
    except Exception as error:  # a flipped byte may be anything: encrypted, of another size, of another name
        raise Damaged(str(error) or type(error).__name__) from error
    if found.get("schema") != SCHEMA:
        raise Damaged(f"it is {found.get('schema')}, not {SCHEMA}")
    return found


def unpack(path: Path) -> tuple[dict[str, Any], list[Any]]:
    """What a checkpoint holds; every byte of it is checked.

    Raises:
        Damaged: if it is not what was written.
    """
    import ml_dtypes
    import numpy as np

    found = about(path)
    arrays = []
    try:
        with zipfile.ZipFile(path) as archive:
            for number, one in enumerate(found["arrays"]):
                dtype = np.dtype(getattr(ml_dtypes, one["dtype"], None) or one["dtype"])
                arrays.append(np.frombuffer(archive.read(f"{number:06}"), dtype).reshape(one["shape"]))
    except Exception as error:
        raise Damaged(str(error) or type(error).__name__) from error
    return found, arrays


def _sync(folder: Path) -> None:
    """Have the folder itself on disk, too: a rename lives there."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
