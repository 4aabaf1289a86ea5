"""``%load_ext fitroom``: models trained in a notebook are guarded, without a change to its cells."""

from __future__ import annotations

from typing import Any

from fitroom.training import every_model
from fitroom.training.options import Options


def load_ipython_extension(ipython: Any) -> None:
    """Guard every Keras model when it is first used. Models guarded by hand keep their options."""
    every_model.install(Options)


def unload_ipython_extension(ipython: Any) -> None:
    """Leave models that are used from now on alone."""
    every_model.uninstall()
