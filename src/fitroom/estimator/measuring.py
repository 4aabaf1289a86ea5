"""Have a step measured in a process of its own, on the pocket device."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from fitroom.core import Plan
from fitroom.devices import host, pocket
from fitroom.errors import FitroomError
from fitroom.units import MIB

# What `fitroom run` and `fitroom estimate` tell a script's processes: this one is to train as plain Keras does.
_TOLD = ("FITROOM_RUN", "FITROOM_ESTIMATE")
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from fitroom.estimator.child import main; main()"


class CannotBeMeasured(FitroomError):
    """A step that does not run in another process, on the data there is."""


def measure(
    packed: bytes,
    x: Any,
    y: Any,
    batch: int,
    plan: Plan,
    kinds: tuple[str, ...] = ("training",),
    sizes: tuple[int, ...] = (),
) -> dict[str, Any]:
    """What the other process found: tapes by kind of step, and what stays.

    Raises:
        CannotBeRebuilt: if the model cannot be built again there.
        CannotBeMeasured: if its step does not run there.
    """
    import tensorflow as tf

    threading = tf.config.threading
    task = {
        "asker": os.getpid(),
        "model": packed,
        "x": x,
        "y": y,
        "batch": batch,
        "plan": plan,
        "kinds": kinds,
        "sizes": sizes,
        "threads": {
            "inter": threading.get_inter_op_parallelism_threads(),
            "intra": threading.get_intra_op_parallelism_threads(),
        },
    }
    command = [sys.executable, "-c", _START, json.dumps(sys.path)]
    with _progress(), tempfile.TemporaryDirectory(prefix="fitroom-") as folder:  # it may be killed and leave something
        environment = {**_environment(), "TMPDIR": folder}
        done = subprocess.run(command, input=pickle.dumps(task), capture_output=True, env=environment, check=False)
    if not done.stdout:
        last = done.stderr.decode(errors="replace")[-400:].strip()
        raise CannotBeMeasured(f"The process that measures died with exit code {done.returncode}", received=last)
    answer: dict[str, Any] = pickle.loads(done.stdout)
    if "error" in answer:
        raise answer["error"]
    if "failed" in answer:
        data = "made-up data" if x is None else "these samples"
        raise CannotBeMeasured(f"A step of the model does not run on {data}", received=answer["failed"][:400])
    return answer


def _progress() -> AbstractContextManager[object]:
    """Say on a terminal what is going on: a large model takes as long as some first steps."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status("fitroom: small steps of the model run in a process of their own …")


def _environment() -> dict[str, str]:
    room = max(host.memory().available // MIB * MIB, 64 * MIB)
    quiet = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    inherited = {name: value for name, value in os.environ.items() if name not in _TOLD}
    return {**inherited, **quiet, **pocket.environment(room)}
