"""G4: a training that is killed goes on after its last committed step, and ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fitroom.core import Record
from fitroom.devices import limits
from fitroom.supervisor import supervising
from fitroom.supervisor.job import Job
from fitroom.units import GIB
from tests import killing
from tests.conftest import Run

SOURCES = ("arrays", "dataset", "pydataset")
MORE_SOURCES = ("repeated", "generator", "twice", "concatenated", "dataset-fast")
Plain = Callable[[str], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Plain:
    """What comes of the script under plain Python, by the kind of its data."""
    known: dict[str, list[dict[str, Any]]] = {}

    def result(source: str) -> list[dict[str, Any]]:
        if source not in known:
            known[source] = killing.plain(tmp_path_factory.mktemp("plain"), source)
        return known[source]

    return result


@pytest.mark.parametrize(
    ("source", "moments"),
    [
        ("arrays", ["step", "between"]),
        ("dataset-fast", ["start", "between", "step"]),
        pytest.param("pydataset", ["between", "checkpoint"], marks=pytest.mark.chaos),
    ],
)
def test_kills_change_nothing(tmp_path: Path, plain: Plain, source: str, moments: list[str]) -> None:
    run = killing.Killed(tmp_path, source, moments)
    assert run.code == 0, run.said[-3000:]
    assert run.kills == len(moments)
    assert killing.differences(killing.results(tmp_path), plain(source)) == []
    assert "goes on with epoch" in run.said
    assert "training 1 had come to its end" in run.said
    assert "exactly that of plain Python" in run.said
    assert not (tmp_path / ".fitroom/resumed-1/checkpoints").exists(), "they are of no use any more"


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("source", [*SOURCES, *MORE_SOURCES])
def test_many_kills_change_nothing(tmp_path: Path, plain: Plain, source: str, seed: int) -> None:
    run = killing.Killed(tmp_path, source, killing.some_moments(9, seed), seed, pause=0.05)
    assert run.code == 0, run.said[-3000:]
    assert run.kills >= 7
    assert killing.differences(killing.results(tmp_path), plain(source)) == []


@pytest.mark.chaos
def test_kills_change_nothing_whatever_is_trained(tmp_path: Path) -> None:
    wanted = killing.plain(tmp_path / "plain", "all", "resumed_models")
    moments = ["step", "between"] * 6
    run = killing.Killed(tmp_path / "killed", "all", moments, pause=0.1, script="resumed_models")
    assert run.code == 0, run.said[-3000:]
    assert run.kills >= 8
    assert killing.differences(killing.results(tmp_path / "killed"), wanted) == []


@pytest.mark.chaos
def test_data_of_unknown_length(tmp_path: Path) -> None:
    # Plain Keras counts one step more where such data end, so the undisturbed run is ours.
    undisturbed = killing.Killed(tmp_path / "undisturbed", "filtered", [], pause=0)
    disturbed = killing.Killed(tmp_path / "disturbed", "filtered", ["step", "checkpoint", "between", "step"])
    assert (undisturbed.code, disturbed.code, disturbed.kills) == (0, 0, 4), disturbed.said[-3000:]
    wanted = killing.results(tmp_path / "undisturbed")
    assert killing.differences(killing.results(tmp_path / "disturbed"), wanted) == []


# --- one training, stopped and gone on with --------------------------------------------------------------------------

TRAINS = """
import os, sys, time
{before}
import json, keras, numpy as np
keras.utils.set_random_seed(1)
x = np.random.rand(64, 8).astype("float32")
width = int(os.environ.get("WIDTH", 64))
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(width), keras.layers.Dense(1)])
model.compile("adam", "mse")
class Slow(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.kept, self.seen = object(), 0
    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1
        time.sleep(float(os.environ["PAUSE"]))
print("training", flush=True)
slow = Slow()
history = model.fit(x, x[:, 0], batch_size=8, epochs=6, verbose=0, callbacks=[slow])
json.dump([history.history, slow.seen, [w.tolist() for w in model.get_weights()]], open("out.json", "w"))
{after}
"""


class Stopped:
    """A training that was stopped after some steps."""

    def __init__(self, folder: Path, number: int = signal.SIGTERM, before: str = "", after: str = "") -> None:
        self.folder = folder
        self.script = TRAINS.format(before=before, after=after)
        (folder / "script.py").write_text(self.script)
        command = [sys.executable, "-m", "fitroom", "run", "--checkpoint-every", "0", "script.py"]
        environment = killing.environment() | {"PAUSE": "0.05"}
        pipe = subprocess.PIPE
        run = subprocess.Popen(command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True)
        record = folder / ".fitroom/script-1/record.jsonl"
        while not record.exists() or record.read_text().count('"kind":"checkpoint"') < 5:
            assert run.poll() is None
            time.sleep(0.01)
        run.send_signal(number)
        self.printed, self.said = run.communicate(timeout=60)
        self.code = run.returncode
        self.checkpoints = sorted((folder / ".fitroom/script-1/checkpoints").glob("*.zip"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What comes of the same script under plain Python."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "script.py").write_text(TRAINS.format(before="", after=""))
    environment = killing.environment() | {"PAUSE": "0"}
    subprocess.run([sys.executable, "script.py"], cwd=folder, env=environment, check=True)
    return result(folder)


def result(folder: Path) -> Any:
    return json.loads((folder / "out.json").read_text())


def resume(fitroom: Run, folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    without_limit = dict.fromkeys(os.environ.keys() - killing.environment().keys(), "")
    return fitroom("run", "--resume", *options, cwd=str(folder), env=without_limit | {"PAUSE": "0"} | environment)


def test_a_stopped_training_goes_on_in_a_copy_of_its_folder(fitroom: Run, tmp_path: Path, undisturbed: Any) -> None:
    (tmp_path / "here").mkdir()
    stopped = Stopped(tmp_path / "here")
    assert stopped.code == -signal.SIGTERM, "it ends as the script would"
    assert "fitroom run --resume script.py" in stopped.said
    there = tmp_path / "there"
    shutil.copytree(tmp_path / "here", there)
    shutil.rmtree(tmp_path / "here")
    done = resume(fitroom, there, "script.py")
    assert done.returncode == 0, done.stderr
    assert "training 1 goes on with epoch" in done.stderr
    assert "callbacks may not know what they saw before: Slow (kept)" in done.stderr
    assert result(there) == undisturbed
    # and once it has come to its end, there is nothing to go on with
    done = resume(fitroom, there, "script.py")
    assert done.returncode == 2
    assert "came to its end" in done.stderr


def test_saving_changes_nothing(fitroom: Run, tmp_path: Path, undisturbed: Any) -> None:
    (tmp_path / "script.py").write_text(TRAINS.format(before="", after=""))
    done = fitroom("run", "--checkpoint-every", "0", "script.py", cwd=str(tmp_path), env={"PAUSE": "0"})
    assert done.returncode == 0, done.stderr
    assert result(tmp_path) == undisturbed
    assert [line for line in done.stderr.splitlines() if not line.startswith("fitroom: memory sufficed")] == []


FORKS = """
import multiprocessing, sys
import numpy as np

def train(rate):
    import keras
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(rate), "mse")
    losses = model.fit(np.ones((64, 2)), np.ones(64), epochs=3, verbose=0).history["loss"]
    print(rate, losses[-1], flush=True)

import keras  # the hooks are in place before anything is forked
for rate in (0.1, 0.001):
    one = multiprocessing.get_context("fork").Process(target=train, args=(rate,))
    one.start()
    one.join()
"""


def test_processes_that_a_script_forks_train_their_own(fitroom: Run, python: Run, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(FORKS)
    done = fitroom("run", "--checkpoint-every", "0", "script.py", cwd=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout == python("script.py", cwd=str(tmp_path)).stdout
    assert len(set(done.stdout.split())) == 4


@pytest.mark.chaos
def test_a_crash_after_the_training_does_not_go_on_for_ever(fitroom: Run, tmp_path: Path) -> None:
    after = "print('mail sent', flush=True); os.kill(os.getpid(), 11)"
    (tmp_path / "script.py").write_text(TRAINS.format(before="", after=after))
    done = fitroom("run", "--checkpoint-every", "0", "script.py", cwd=str(tmp_path), env={"PAUSE": "0"})
    assert done.returncode == -11
    assert 1 <= done.stdout.count("mail sent") <= 5, "three deaths without progress end it"
    assert "fitroom run --resume script.py" in done.stderr


def test_a_script_that_goes_to_another_folder_is_known_again(fitroom: Run, tmp_path: Path, undisturbed: Any) -> None:
    (tmp_path / "elsewhere").mkdir()
    before = "os.chdir('elsewhere'); print(list({'cat', 'dog', 'emu', 'fox', 'gnu'}))"
    stopped = Stopped(tmp_path, before=before)
    done = resume(fitroom, tmp_path)
    assert done.returncode == 0, done.stderr
    assert result(tmp_path / "elsewhere") == undisturbed
    assert stopped.printed.splitlines()[0] == done.stdout.splitlines()[0], "sets of strings come in the same order"


def test_a_sigterm_reaches_the_scripts_own_handler(tmp_path: Path) -> None:
    before = "import signal\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(9))"
    stopped = Stopped(tmp_path, before=before)
    assert stopped.code == 9
    assert stopped.checkpoints


@pytest.mark.parametrize(
    "damage", ["flipped", pytest.param("half", marks=pytest.mark.chaos), pytest.param("all", marks=pytest.mark.chaos)]
)
def test_a_damaged_checkpoint_is_told_from_a_whole_one(
    fitroom: Run, tmp_path: Path, undisturbed: Any, damage: str
) -> None:
    stopped = Stopped(tmp_path)
    assert len(stopped.checkpoints) == 2
    for path in stopped.checkpoints if damage == "all" else stopped.checkpoints[-1:]:
        content = bytearray(path.read_bytes())
        if damage == "half":
            content = content[: len(content) // 2]
        else:
            content[len(content) // 3] ^= 1
        path.write_bytes(content)
    (tmp_path / ".fitroom/script-1/checkpoints/000000-000000000099.writing").write_bytes(b"PK")
    done = resume(fitroom, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "is damaged" in done.stderr
    assert ("goes on with epoch" in done.stderr) == (damage != "all")
    assert result(tmp_path) == undisturbed


def test_a_script_that_has_changed_is_refused(fitroom: Run, tmp_path: Path) -> None:
    stopped = Stopped(tmp_path)
    (tmp_path / "script.py").write_text(stopped.script.replace("epochs=6", "epochs=7"))
    done = resume(fitroom, tmp_path, "script.py")
    assert done.returncode == 2
    assert "script.py has changed in line 19" in done.stderr
    assert "epochs=7" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted((tmp_path / ".fitroom/script-1/checkpoints").glob("*.zip")) == stopped.checkpoints


def test_a_model_that_has_changed_is_refused(fitroom: Run, tmp_path: Path) -> None:
    stopped = Stopped(tmp_path)
    done = resume(fitroom, tmp_path, WIDTH="65")
    assert done.returncode == 2
    assert "the model is another one: the variable sequential/dense/kernel (8×64, float32)" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted((tmp_path / ".fitroom/script-1/checkpoints").glob("*.zip")) == stopped.checkpoints


@pytest.mark.chaos
def test_a_module_beside_the_script_that_has_changed_is_refused(fitroom: Run, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("RATE = 1\n")
    Stopped(tmp_path, before="import beside")
    (tmp_path / "beside.py").write_text("RATE = 2\n")
    done = resume(fitroom, tmp_path)
    assert done.returncode == 2
    assert "beside.py has changed" in done.stderr


def test_a_script_that_cannot_begin_twice_says_so(fitroom: Run, tmp_path: Path, undisturbed: Any) -> None:
    stopped = Stopped(tmp_path, before="os.mkdir('results')")
    done = resume(fitroom, tmp_path)
    assert done.returncode == 1
    assert "failed before it came to its training (FileExistsError" in done.stderr
    assert sorted((tmp_path / ".fitroom/script-1/checkpoints").glob("*.zip")) == stopped.checkpoints
    (tmp_path / "results").rmdir()
    done = resume(fitroom, tmp_path)
    assert done.returncode == 0, done.stderr
    assert result(tmp_path) == undisturbed


def test_a_run_whose_supervisor_was_killed_goes_on(fitroom: Run, tmp_path: Path, undisturbed: Any) -> None:
    Stopped(tmp_path, signal.SIGKILL)
    done = resume(fitroom, tmp_path)
    assert done.returncode == 0, done.stderr
    assert result(tmp_path) == undisturbed


def test_a_failure_after_the_training_does_not_train_again(fitroom: Run, tmp_path: Path) -> None:
    script = TRAINS.format(before="", after="if not os.path.exists('ready'): sys.exit(3)")
    (tmp_path / "script.py").write_text(script)
    command = ["run", "--checkpoint-every", "0", "script.py"]
    assert fitroom(*command, cwd=str(tmp_path), env={"PAUSE": "0"}).returncode == 3
    (tmp_path / "ready").touch()
    before = (tmp_path / "out.json").read_bytes()
    (tmp_path / "out.json").unlink()
    done = resume(fitroom, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "training 1 had come to its end: its results are put back" in done.stderr
    assert (tmp_path / "out.json").read_bytes() == before


def test_a_full_disk_stops_no_training(fitroom: Run, tmp_path: Path) -> None:
    def limit() -> None:  # no file may grow beyond this: the record fits, a checkpoint does not
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))

    lines = TRAINS.format(before="", after="print('trained')").splitlines()
    (tmp_path / "script.py").write_text("\n".join(line for line in lines if "out.json" not in line))
    command = ["run", "--checkpoint-every", "0", "script.py"]
    done = fitroom(*command, cwd=str(tmp_path), preexec_fn=limit, env={"PAUSE": "0"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("trained\n")
    assert "cannot save the training to" in done.stderr
    assert done.stderr.count("cannot save the training to") == 1
    assert not list((tmp_path / ".fitroom/script-1").rglob("*.writing"))


def test_a_run_that_is_under_way_is_not_gone_on_with(fitroom: Run, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(60)")
    command = [sys.executable, "-m", "fitroom", "run", "script.py"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as run:
        assert run.stdout is not None
        run.stdout.readline()
        done = fitroom("run", "--resume", cwd=str(tmp_path))
        run.terminate()
    assert done.returncode == 2
    assert "still under way" in done.stderr


def test_nothing_to_go_on_with_begins_anew_or_says_so(fitroom: Run, tmp_path: Path) -> None:
    done = fitroom("run", "--resume", cwd=str(tmp_path))
    assert done.returncode == 2
    assert "There is no run to go on with here" in done.stderr
    (tmp_path / "script.py").write_text("print('trained')")
    done = fitroom("run", "--resume", "script.py", cwd=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "trained\n")


def test_other_arguments_are_another_run(fitroom: Run, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("raise SystemExit(1)")
    fitroom("run", "script.py", "--rate", "1", cwd=str(tmp_path))
    done = fitroom("run", "--resume", "script.py", "--rate", "2", cwd=str(tmp_path))
    assert done.returncode == 2
    assert "The last run was another one" in done.stderr
    assert "--rate 1" in done.stderr


def test_a_folder_that_cannot_be_written_stops_no_training(fitroom: Run, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(TRAINS.format(before="", after="print('trained')"))
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "checkpoints").write_text("a file where the folder should be")
    command = ["run", "--checkpoint-every", "0", "--record", "kept", "script.py"]
    done = fitroom(*command, cwd=str(tmp_path), env={"PAUSE": "0"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("trained\n")
    assert done.stderr.count("cannot save the training to") == 1


# --- before the kernel kills -----------------------------------------------------------------------------------------


def test_a_training_is_saved_before_memory_runs_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # GIVEN a machine whose memory fills up in the first attempt, once the training has been saved: far from its end,
    # where a slow disk takes a second for that, too
    record = tmp_path / ".fitroom/script-1/record.jsonl"
    used = [int(0.8 * GIB)]

    def uses(pid: int) -> list[limits.Use]:
        text = record.read_text() if record.exists() else ""
        if '"kind":"checkpoint"' in text and '"kind":"restart"' not in text:
            used[0] = min(used[0] + GIB // 20, GIB)
        elif '"kind":"restart"' in text:
            used[0] = GIB // 2
        return [limits.Use("the machine", GIB, used[0])]

    monkeypatch.setattr(limits, "uses", uses)
    (tmp_path / "script.py").write_text(TRAINS.format(before="", after=""))
    monkeypatch.setenv("PAUSE", "0.2")
    for name in os.environ.keys() - killing.environment().keys():
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    # WHEN it runs under supervision
    outcome = supervising.supervise(Job("script.py", every=0.0), lambda event: None)
    # THEN it was saved, ended and started again with a limit on tensors, and lost nothing
    assert outcome.code == 0
    (death,) = outcome.record.of("death")
    assert death.data["face"] == "foreseen"
    assert "the machine" in str(death.data["evidence"])
    assert outcome.record.of("restart")[0].data["budget_mib"] is not None
    resumed = outcome.record.of("resumed")[0].data
    last = [event.data for event in outcome.record.of("checkpoint") if event.time < death.time][-1]
    assert (resumed["epoch"], resumed["step"]) == (last["epoch"], last["step"])
    updates = json.loads((tmp_path / "out.json").read_text())
    assert len(updates[0]["loss"]) == 6


# --- what no seed decides --------------------------------------------------------------------------------------------

UNSEEDED = """
import json, random, sys, time
import keras, numpy as np, tensorflow as tf
ids = np.arange(40).astype("float32")
class Logs(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
    def call(self, x):
        return self.dense(x)
    def train_step(self, data):
        with open("order.jsonl", "a") as file:
            place = [int(self.optimizer.iterations), data[0][:, 0].numpy().tolist()]
            file.write(json.dumps(place) + "\\n")
        return super().train_step(data)
class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.05)
model = Logs()
model.compile("sgd", "mse", run_eagerly=True)
data = dict(x=ids[:, None], y=ids, batch_size=4)
if sys.argv[1] == "dataset":
    data = dict(x=tf.data.Dataset.from_tensor_slices((ids[:, None], ids)).shuffle(40).batch(4))
inner = list(tf.data.Dataset.range(2).flat_map(lambda one: tf.data.Dataset.range(9).shuffle(9)).as_numpy_iterator())
assert inner[:9] != inner[9:], "a shuffle within a function is another one each time"
print(random.random(), np.random.rand(), np.random.default_rng().random(), flush=True)
model.fit(**data, epochs=4, verbose=0, callbacks=[Slow()])
"""


@pytest.mark.parametrize("source", ["arrays", pytest.param("dataset", marks=pytest.mark.chaos)])
def test_an_order_that_no_seed_decides_is_the_same_after_a_kill(tmp_path: Path, source: str) -> None:
    (tmp_path / "script.py").write_text(UNSEEDED)
    command = [sys.executable, "-m", "fitroom", "run", "--checkpoint-every", "0", "script.py", source]
    run = subprocess.Popen(command, cwd=tmp_path, env=killing.environment(), stdout=subprocess.PIPE, text=True)
    record = tmp_path / ".fitroom/script-1/record.jsonl"
    while not record.exists() or record.read_text().count('"kind":"checkpoint"') < 9:
        assert run.poll() is None
        time.sleep(0.01)
    children = subprocess.run(["pgrep", "-P", str(run.pid)], capture_output=True, text=True, check=True)
    os.kill(int(children.stdout.split()[0]), signal.SIGKILL)
    out, _ = run.communicate(timeout=100)
    assert run.returncode == 0
    first, second = out.splitlines()
    assert first == second, "what the script draws itself is the same"
    seen: dict[int, list[float]] = {}
    for line in (tmp_path / "order.jsonl").read_text().splitlines():
        step, batch = json.loads(line)
        if step or 0 not in seen:  # a step that only builds is made on fresh variables
            assert seen.setdefault(step, batch) == batch, "a batch that comes again is the same one"
    epochs = [[one for step in range(10 * n, 10 * n + 10) for one in seen[step]] for n in range(4)]
    assert all(sorted(epoch) == list(range(40)) for epoch in epochs), "each sample once in each epoch"
    assert len({tuple(epoch) for epoch in epochs}) == 4, "each epoch has an order of its own"


@pytest.mark.chaos
def test_each_run_draws_other_numbers(fitroom: Run, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import random, numpy as np\nprint(random.random(), np.random.rand())")
    first, second = (fitroom("run", "script.py", cwd=str(tmp_path)).stdout for _ in range(2))
    assert first != second


@pytest.mark.chaos
def test_data_that_come_otherwise_are_told_of(fitroom: Run, tmp_path: Path) -> None:
    # GIVEN data that nothing decides
    unknown = "SEED = int.from_bytes(os.urandom(4), 'little')"
    Stopped(
        tmp_path,
        before=unknown + "\nimport keras; keras.utils.set_random_seed_ = keras.utils.set_random_seed\n"
        "keras.utils.set_random_seed = lambda seed: keras.utils.set_random_seed_(SEED)",
    )
    done = resume(fitroom, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "come in another order than before" in done.stderr
    assert "result    not that of an undisturbed run" in done.stderr


@pytest.mark.chaos
def test_a_record_of_checkpoints_is_readable(tmp_path: Path) -> None:
    Stopped(tmp_path)
    record = Record.read(tmp_path / ".fitroom/script-1/record.jsonl")
    places = [(event.data["epoch"], event.data["step"]) for event in record.of("checkpoint")]
    assert places == sorted(places)
    assert len(places) >= 5
