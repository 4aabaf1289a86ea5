"""The random numbers that are drawn next: of Python, NumPy, TensorFlow and Keras."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from fitroom.training import random_seams


def read() -> dict[str, Any]:
    """Where each of them stands, as plain data."""
    return {**read_python(), "tensorflow": random_seams.read_tensorflow(), "keras": random_seams.read_keras()}


def write(state: dict[str, Any], *, also_python: bool = True) -> None:
    """Have them stand there again."""
    if also_python:
        write_python(state)
    random_seams.write_tensorflow(state["tensorflow"])
    random_seams.write_keras(state["keras"])


def read_python() -> dict[str, Any]:
    """Where those stand that Python code which makes batches may use."""
    return {"python": random.getstate(), "numpy": np.random.get_state(legacy=False)}


def write_python(state: dict[str, Any]) -> None:
    """Have them stand there again."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
