"""How long the light commands take to start, against an empty Python: they must not load TensorFlow."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.measure import Ratio, interleaved

GOAL = 6.0


def command(*words: str) -> Callable[[], object]:
    """A call that runs a command to its end."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    return lambda: subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=environment)


def run() -> Iterator[Ratio]:
    fitroom = str(Path(sys.executable).parent / "fitroom")
    empty = command(sys.executable, "-c", "pass")
    for arguments in (["--help"], ["env"], ["explain"], ["explain", "G1"], ["diagnose", "--help"]):
        ours = command(fitroom, *arguments)
        yield interleaved(f"fitroom {' '.join(arguments)} ÷ python -c pass", ours, empty, pairs=21, goal=GOAL)
