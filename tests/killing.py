"""Runs a script under ``fitroom run`` and kills its process at chosen moments."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from tests.conftest import THREADS

SCRIPTS = Path(__file__).parent / "scripts"
QUICK = ("start",)  # nothing has been saved since the last one: three in a row end a run


def environment() -> dict[str, str]:
    """As a user's: all threads, and no limit on tensors."""
    return {name: value for name, value in os.environ.items() if name not in THREADS and not name.startswith("TF_CPU")}


def plain(folder: Path, source: str, script: str = "resumed") -> list[dict[str, Any]]:
    """What comes of the script under plain Python."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, str(SCRIPTS / f"{script}.py"), source, "0"]
    subprocess.run(command, cwd=folder, env=environment(), capture_output=True, check=True, timeout=280)
    return results(folder)


def results(folder: Path) -> list[dict[str, Any]]:
    """What the script has written down."""
    found: list[dict[str, Any]] = json.loads((folder / "out.json").read_text())
    return found


def differences(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> list[str]:
    """What is not the same, training by training."""
    assert len(found) == len(wanted)
    both = enumerate(zip(found, wanted, strict=True), 1)
    return [f"{name} of training {number}" for number, (a, b) in both for name in b if a[name] != b[name]]


def stopped(folder: Path, source: str, script: str) -> None:
    """Run a script under ``fitroom run`` until it has been saved a few times, and stop it then."""
    command = [sys.executable, "-m", "fitroom", "run", "--checkpoint-every", "0", str(SCRIPTS / f"{script}.py")]
    run = subprocess.Popen([*command, source, "0.1"], cwd=folder, env=environment(), stderr=subprocess.DEVNULL)
    record = folder / ".fitroom" / f"{script}-1" / "record.jsonl"
    while not record.exists() or record.read_text().count('"kind":"checkpoint"') < 3:
        assert run.poll() is None
        time.sleep(0.01)
    run.send_signal(signal.SIGTERM)
    run.wait(60)


class Killed:
    """A run whose process is killed again and again, until it has come to its end.

    Attributes:
        kills: how many times.
        code: its exit code.
        said: its standard error.
    """

    def __init__(
        self, folder: Path, source: str, moments: list[str], seed: int = 0, pause: float = 0.02, script: str = "resumed"
    ) -> None:
        folder.mkdir(exist_ok=True)
        self._home = folder / ".fitroom" / f"{script}-1"
        self._random = random.Random(seed)
        self.kills = 0
        command = [sys.executable, "-m", "fitroom", "run", "--checkpoint-every", "0", str(SCRIPTS / f"{script}.py")]
        with (folder / "stderr").open("w") as errors:
            self._run = subprocess.Popen(
                [*command, source, str(pause)], cwd=folder, env=environment(), stdout=subprocess.DEVNULL, stderr=errors
            )
        last = None
        for moment in moments:
            child = self._child(last)
            if child is None:
                break
            last = child.pid
            self._wait_for(moment)
            try:
                child.kill()
                self.kills += 1
            except psutil.NoSuchProcess:
                break
        self.code = self._run.wait(280)
        self.said = (folder / "stderr").read_text()

    def _child(self, last: int | None) -> psutil.Process | None:
        """The script's process, once it is another than the last one."""
        while self._run.poll() is None:
            try:
                found = [one for one in psutil.Process(self._run.pid).children() if one.pid != last]
            except psutil.NoSuchProcess:
                break
            if found:
                return found[0]
            time.sleep(0.01)
        return None

    def _wait_for(self, moment: str) -> None:
        if moment == "start":
            time.sleep(self._random.uniform(0, 3))
            return
        before, finished = self._saved(), self._count("*-finished.zip")
        while self._run.poll() is None and self._saved() < before + 2:
            time.sleep(0.002)
        if moment == "step":
            time.sleep(self._random.uniform(0, 0.3))
        while moment == "checkpoint" and self._run.poll() is None and not self._count("*.writing"):
            pass
        while moment == "between" and self._run.poll() is None and self._count("*-finished.zip") == finished:
            time.sleep(0.002)

    def _saved(self) -> int:
        try:
            return (self._home / "record.jsonl").read_text().count('"kind":"checkpoint"')
        except OSError:
            return 0

    def _count(self, pattern: str) -> int:
        return len(list((self._home / "checkpoints").glob(pattern)))


def some_moments(count: int, seed: int) -> list[str]:
    """Moments to kill at, never three in a row at which nothing is saved, and one between the two trainings."""
    generator = random.Random(seed)
    chosen: list[str] = []
    while len(chosen) < count:
        one = generator.choice(("start", "step", "step", "checkpoint"))
        if one not in QUICK or chosen[-2:] != [one, one]:
            chosen.append(one)
    chosen[count // 2] = "between"
    return chosen
