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


def packed() -> Any:
    """The same in few bytes, for many of them; nothing where NumPy has been given a generator of another kind."""
    version, python, gauss = random.getstate()
    numpy: Any = np.random.get_state(legacy=False)
    if numpy["bit_generator"] != "MT19937":
        return np.zeros(0, np.uint32)
    key, place, spare = numpy["state"]["key"], numpy["state"]["pos"], numpy["has_gauss"]
    floats = np.array([np.nan if gauss is None else gauss, numpy["gauss"]]).view(np.uint32)
    return np.concatenate([[version], python, key, [place, spare], floats]).astype(np.uint32)


def unpack(state: Any) -> None:
    """Have Python's and NumPy's stand where they stood when this was packed, if it could be."""
    if not len(state):
        return
    floats = state[-4:].view(np.float64)
    gauss = None if np.isnan(floats[0]) else float(floats[0])
    random.setstate((int(state[0]), tuple(map(int, state[1:626])), gauss))
    np.random.set_state(("MT19937", state[626:1250], int(state[1250]), int(state[1251]), float(floats[1])))
