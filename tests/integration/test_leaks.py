"""Programs that leak, and programs that only look so, under `fitroom run` and with the callback.

A program that leaks says so on the line that should be named: ``# leak: CAUSE``, and one more word that has to be said.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from fitroom.core import Event, Record
from tests.conftest import ROOT, Run

PROGRAMS = ROOT / "tests" / "scripts" / "leaks"
LEAKY = sorted((PROGRAMS / "leaky").glob("*.py"))
INNOCENT = sorted((PROGRAMS / "innocent").glob("*.py"))
QUICK = {"tensors_in_list", "curriculum"}  # the others are in `make chaos`
OURS = re.compile(r"fitroom: leak|^ +leak |memory leaks", re.MULTILINE)  # others may name a folder so
SAYS = re.compile(r"# leak: (\w+) ?(\w*)")


def programs(paths: list[Path]) -> list[object]:
    return [pytest.param(path, id=path.stem, marks=[] if path.stem in QUICK else [pytest.mark.chaos]) for path in paths]


def expected(path: Path) -> tuple[int, str, str]:
    [(line, cause, word)] = [
        (number, found[1], found[2])
        for number, text in enumerate(path.read_text().splitlines(), 1)
        if (found := SAYS.search(text))
    ]
    return line, cause, word


def budget(path: Path) -> list[str]:
    found = re.search(r"Budget: (\w+)", path.read_text())
    return ["--budget", found[1]] if found else []


def watched(python: Run, tmp_path: Path, path: Path, *options: str) -> tuple[Record, str, str]:
    shutil.copy(path, tmp_path)
    run = ["-m", "fitroom", "run", "--record", "run", *budget(path), *options, path.name]
    cpu = {"TF_CPU_ALLOCATOR_USE_BFC": "0"}  # as a user's machine is; a budget sets it again
    done = python(*run, cwd=str(tmp_path), env=cpu)
    assert done.returncode == 0, done.stderr[-2000:]
    return Record.read(tmp_path / "run" / "record.jsonl"), done.stderr, done.stdout


def leaks(record: Record) -> dict[tuple[object, object], Event]:
    found: dict[tuple[object, object], Event] = {}
    for event in record.events:
        key = (event.data.get("cause"), event.data.get("where"))
        if event.kind == "leak":
            found[key] = event
        elif event.kind == "leak_over":
            del found[key]
    assert not record.of("leak_watch_lost")
    return found


def test_there_are_enough_programs() -> None:
    assert len(LEAKY) >= 40
    assert len(INNOCENT) >= 40
    assert len({expected(path)[1] for path in LEAKY}) >= 9


@pytest.mark.parametrize("path", programs(LEAKY))
def test_a_leak_is_named_with_its_cause_and_its_line(python: Run, tmp_path: Path, path: Path) -> None:
    line, cause, word = expected(path)
    record, said, _ = watched(python, tmp_path, path)
    found = leaks(record)
    assert [(event.data["cause"], event.data["line"]) for event in found.values()] == [(cause, line)]
    [event] = found.values()
    assert f"{path.name}:{line}" in said, "the account does not say so"
    assert word in str(event.data["what"])
    assert event.data["fix"]
    if cause != "second_step":
        assert float(event.data["bytes_per"] or 0) > 0
        left = event.data["seconds_left"]
        assert left is not None
        assert float(left) > 0 or budget(path), "only where it is full nothing is left"


@pytest.mark.parametrize("path", programs(INNOCENT))
def test_no_innocent_is_accused(python: Run, tmp_path: Path, path: Path) -> None:
    record, said, _ = watched(python, tmp_path, path)
    assert not leaks(record)
    assert not OURS.search(said)


@pytest.mark.chaos
def test_a_training_that_is_saved_at_every_step_is_not_accused(python: Run, tmp_path: Path) -> None:
    record, said, _ = watched(python, tmp_path, PROGRAMS / "innocent" / "plain_fit.py", "--checkpoint-every", "0")
    assert not leaks(record)
    assert not OURS.search(said)


def test_the_watch_can_be_left_out(python: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys, keras\nprint('fitroom.leaks.watch' in sys.modules)\n")
    for option, is_there in (("--no-leaks", "False"), ("--leaks", "True")):
        done = python("-m", "fitroom", "run", option, "train.py", cwd=str(tmp_path))
        assert done.stdout.strip() == is_there, done.stderr


@pytest.mark.chaos
def test_the_time_until_memory_runs_out_is_foretold(python: Run, tmp_path: Path) -> None:
    record, _, printed = watched(python, tmp_path, PROGRAMS / "leaky" / "into_its_budget.py")
    full = float(printed.split("full at")[1])
    said = [event for event in record.of("leak") if event.time < full]
    assert said, "it was not foretold"
    half = (said[0].time + full) / 2  # what was last said by then counts: before, the speed is still that of a warm-up
    last = [event for event in said if event.time <= half][-1]
    took = full - last.time
    assert abs(float(last.data["seconds_left"] or 0) - took) <= 0.25 * took


WITH_THE_CALLBACK = """
import keras, numpy as np, fitroom.callbacks
class Keep(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.kept = []
    def on_train_batch_end(self, batch, logs=None):
        self.kept.append(np.zeros(200_000))  # here
x = np.random.rand(1024, 64).astype("float32")
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(32), keras.layers.Dense(1)])
model.compile("adam", "mse")
watch = fitroom.callbacks.LeakWatch()
model.fit(x, x[:, :1], batch_size=16, epochs=EPOCHS, verbose=0, callbacks=[watch, CALLBACKS])
print([str(one.cause.value) for one in watch.found])
"""


def test_the_callback_says_what_leaks(python: Run, tmp_path: Path) -> None:
    code = WITH_THE_CALLBACK.replace("EPOCHS", "16").replace("CALLBACKS", "Keep()")
    (tmp_path / "train.py").write_text(code)
    done = python("train.py", cwd=str(tmp_path), env={"TF_CPU_ALLOCATOR_USE_BFC": "0"})
    line = next(number for number, text in enumerate(code.splitlines(), 1) if text.endswith("# here"))
    assert done.stdout.strip() == "['growing_history']", done.stderr[-2000:]
    assert f"fitroom: leak at train.py:{line}: Keep.kept holds" in done.stderr


def test_the_callback_is_silent_where_nothing_leaks(python: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WITH_THE_CALLBACK.replace("EPOCHS", "8").replace(", CALLBACKS", ""))
    done = python("train.py", cwd=str(tmp_path), env={"TF_CPU_ALLOCATOR_USE_BFC": "0"})
    assert done.stdout.strip() == "[]"
    assert "fitroom" not in done.stderr


@pytest.mark.chaos
def test_lines_are_told_by_memray(python: Run, tmp_path: Path) -> None:
    pytest.importorskip("memray")
    (tmp_path / "train.py").write_text("import numpy as np\nkept = [np.ones(1_000_000) for _ in range(20)]  # 160 MB\n")
    done = python("-m", "fitroom", "run", "--lines", "train.py", cwd=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert re.search(r"153 MiB  train\.py:2$", done.stderr, re.MULTILINE), done.stderr
