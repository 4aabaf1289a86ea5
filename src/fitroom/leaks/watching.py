"""The one watch of a process: begun once, whoever asks."""

from __future__ import annotations

import atexit
import os
from typing import Any

from fitroom.leaks.watch import Watch
from fitroom.training import log

_watches: list[Watch] = []


def begin(*, act: bool) -> Watch | None:
    """Watch this process from now on; None where its Keras or TensorFlow is not known here."""
    if not _watches:
        try:
            from fitroom.leaks import tf_seams
        except (ImportError, AttributeError):  # another version: what cannot be hooked is not watched
            return None
        events = log.Log()
        watch = Watch(events.tell, act=act)
        tf_seams.install(watch)
        log.listen(lambda kind, data: _heard(watch, kind, data))
        atexit.register(watch.finish)
        _watches.append(watch)
    _watches[0].acts |= act
    return _watches[0]


def current() -> Watch | None:
    """The watch of this process, if it has one."""
    return _watches[0] if _watches else None


def is_supervised() -> bool:
    """Whether this is `fitroom run`, which does the talking."""
    return "FITROOM_RUN" in os.environ


def _heard(watch: Watch, kind: str, data: dict[str, Any]) -> None:
    """The guard carried a step through: that tells the same as an error would."""
    if kind == "oom":
        try:
            watch.ran_out()
        except Exception as error:  # the guard goes on
            watch.lost(error)
