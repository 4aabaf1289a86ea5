"""Sizes that were found to fit, remembered from run to run, so that the next one suffers no error.

One small file per kind of step in the user's cache folder (`FITROOM_CACHE` names another, or is "off"). Its name is a
hash of everything that the size depends on: model, optimizer, device, limit, versions. Change one of them and it is
another file: forgotten.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import fitroom
from fitroom.devices.meter import Meter
from fitroom.remedies import recompute
from fitroom.training import keras_seams

OFF = ("off", "0", "no", "false")


def folder() -> Path | None:
    """Where sizes are remembered; None where they are not."""
    wanted = os.environ.get("FITROOM_CACHE")
    if wanted is not None and wanted.strip().lower() in OFF:
        return None
    if wanted:
        return Path(wanted).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "fitroom" / "sizes"
    except RuntimeError:  # no home
        return None


class Remembered:
    """The sizes of one kind of step.

    Args:
        facts: everything that a size depends on.
    """

    def __init__(self, facts: Iterable[object]) -> None:
        text = json.dumps([str(fact) for fact in facts])
        place = folder()
        self._path = place / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json" if place else None

    def read(self, samples: int) -> int | None:
        """The slice size that fitted for batches of so many samples; None where nothing is known."""
        size = self._load().get(str(samples))
        return size if isinstance(size, int) and 1 <= size < samples else None

    def read_recompute(self, samples: int) -> int | str | None:
        """The setting with which activations were computed again, as such batches needed it, or were planned."""
        found = self._load()
        setting = found.get(recompute.NAME, found.get(_planned(samples)))
        return setting if setting == recompute.HIGH or (isinstance(setting, int) and setting > 0) else None

    def is_known(self, samples: int) -> bool:
        """Whether it is remembered how batches of so many samples ran, or were planned."""
        return self.read(samples) is not None or _planned(samples) in self._load()

    def write_plan(self, samples: int, recomputes: int | str | None) -> None:
        """Remember that such batches were planned, and whether activations are computed again for it."""
        self._add({_planned(samples): recomputes or ""})

    def write(self, samples: int, size: int) -> None:
        """Remember a size."""
        self._add({str(samples): size})

    def write_recompute(self, setting: int | str) -> None:
        """Remember that activations had to be computed again."""
        self._add({recompute.NAME: setting})

    def _add(self, facts: dict[str, object]) -> None:
        """Keep more facts. Where that cannot be done (a full disk, a folder that is not ours), nothing is."""
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps({**self._load(), **facts})
            temporary = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            temporary.write_text(text)
            temporary.replace(self._path)
        except OSError:
            return

    def _load(self) -> dict[str, object]:
        if self._path is None:
            return {}
        try:
            found = json.loads(self._path.read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def _planned(samples: int) -> str:
    return f"planned {samples}"


def remembered_for(what: str, meter: Meter | None, model: Any, optimizer: Any, name: str = "") -> Remembered | None:
    """The sizes of a model's training, evaluation or prediction here; None where nothing is to be remembered."""
    if meter is None or folder() is None:
        return None
    import keras
    import tensorflow as tf

    variables = [] if model is None else [(v.path, tuple(v.shape), v.dtype) for v in model.variables]
    layers = [] if model is None else [(type(one).__name__, one.name, one.dtype_policy.name) for one in model.layers]
    return Remembered([
        what, name, meter.device, meter.limit, fitroom.__version__, keras.__version__, tf.__version__,
        type(model).__qualname__, layers, variables, getattr(model, "jit_compile", None),
        tf.distribute.get_strategy().num_replicas_in_sync if model is None else keras_seams.replicas(model),
        type(optimizer).__name__, keras.config.dtype_policy().name,
    ])  # fmt: skip
