"""Runs a script up to its first training, to ask what it takes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fitroom.core import Fitting, Plan
from fitroom.devices import host, pocket
from fitroom.supervisor.supervising import SITE
from fitroom.units import MIB


@dataclass(frozen=True)
class Question:
    """What is asked of a script's trainings.

    Attributes:
        batch_size: another batch size than the script's own.
        plan: with these remedies.
        budget: bytes that it is to fit.
        gpus: names, bytes and what is to be said of each.
        all: whether every training is asked for, or the first one.
        plan_for: a Budget's JSON: asks for a plan, instead of where it fits.
        allow: remedies that the plan may use though they change the math.
    """

    batch_size: int | None = None
    plan: str | None = None
    budget: int | None = None
    gpus: tuple[tuple[str, int, str], ...] = ()
    all: bool = False
    plan_for: str | None = None
    allow: tuple[str, ...] = ()


class Answer(NamedTuple):
    """What came back.

    Attributes:
        fittings: the trainings that were met.
        plans: their places in the script, and plans, where these were asked for.
        refused: where and why one could not be estimated.
        code: the script's exit code; it is 0 where it was stopped at its first training.
    """

    fittings: tuple[Fitting, ...]
    plans: tuple[tuple[str, Plan], ...]
    refused: tuple[str, ...]
    code: int


def ask(command: list[str], question: Question) -> Answer:
    """Run a script, its output on our standard error, and take what it answers.

    Args:
        command: what to type after ``python``.
        question: what is asked.
    """
    with tempfile.TemporaryDirectory(prefix="fitroom-") as folder:
        answers = Path(folder) / "answers"
        told = {"supervisor": os.getpid(), "answers": str(answers), **vars(question)}
        with _ended_by_sigterm():
            done = subprocess.run([sys.executable, *command], env=_environment(told), stdout=2, check=False)
        text = answers.read_text("utf-8") if answers.exists() else ""
    # A process that is killed may leave half a line; several that train at once, more answers than were asked for.
    lines = text.splitlines()[: text.count("\n")]
    found = [json.loads(line) for line in (lines if question.all else lines[:1])]
    return Answer(
        tuple(Fitting.from_json(one["fitting"]) for one in found if "fitting" in one),
        tuple((one["where"], Plan.from_json(one["plan"])) for one in found if "plan" in one),
        tuple(f"{one.get('where', '')}: {one['refused']}".removeprefix(": ") for one in found if "refused" in one),
        done.returncode,
    )


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Have a SIGTERM end us in order: the script's process and the folder go, too."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _environment(told: dict[str, object]) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name != "FITROOM_RUN"}
    paths = [str(SITE), *filter(None, [os.environ.get("PYTHONPATH")])]
    room = max(host.memory().available // MIB * MIB, 64 * MIB)
    ours = {"PYTHONPATH": os.pathsep.join(paths), "FITROOM_ESTIMATE": json.dumps(told), "CUDA_VISIBLE_DEVICES": ""}
    return {"TF_CPP_MIN_LOG_LEVEL": "2", **inherited, **pocket.environment(room), **ours}
