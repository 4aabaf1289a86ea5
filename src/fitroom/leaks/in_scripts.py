"""The watch over a whole script: put in place as it imports Keras, closed when it ends."""

from __future__ import annotations

from fitroom.training.imports import after_import

TYPE_CHECKING = False  # as in typing: every Python that a script starts imports this module

if TYPE_CHECKING:
    from typing import Any


def install(told: dict[str, Any]) -> None:
    """Watch this process, whatever the supervisor told it."""
    after_import("keras", _keras)


def _keras() -> None:
    import keras

    if keras.config.backend() != "tensorflow":
        return
    from fitroom.leaks import watching

    watching.begin(act=True)
