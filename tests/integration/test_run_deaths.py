"""Processes that die: of memory, and are started again; of something else, and are left alone."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from fitroom.core import Record
from fitroom.devices import host, limits
from fitroom.supervisor import supervising
from fitroom.supervisor.job import Job
from fitroom.supervisor.supervising import supervise
from fitroom.units import GIB, MIB
from tests.conftest import Run

# Dies until it is told to need less, `lives_at` slices or a budget; says what it was told.
DIES = """
import json, os, sys
told = json.loads(os.environ["FITROOM_RUN"])
print(told["budget_mib"], told["slices"], flush=True)
if told["slices"] < {lives_at}:
    {how}
"""
ABORT = "sys.stderr.write({words!r}); sys.stderr.flush(); os.abort()"
BAD_ALLOC = ABORT.format(words="terminate called after throwing an instance of 'std::bad_alloc'\n")
CHECK = ABORT.format(words="F0000 13836 bfc_allocator.cc:711] Check failed: h != kInvalidChunkHandle\n")


def run(fitroom: Run, folder: Path, script: str, *options: str, **more: Any) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(script)
    return fitroom("run", *options, "script.py", cwd=str(folder), **more)


@pytest.mark.parametrize("how", [BAD_ALLOC, CHECK], ids=["bad_alloc", "check"])
def test_an_abort_for_memory_is_survived(fitroom: Run, tmp_path: Path, how: str) -> None:
    done = run(fitroom, tmp_path, DIES.format(how=how, lives_at=4), "--budget", "1GiB")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == ["1024 1", "614 4"]
    assert "died of memory" in done.stderr
    assert "starting it again from the top" in done.stderr
    record = Record.read(tmp_path / ".fitroom" / "script-1" / "record.jsonl")
    assert [event.kind for event in record.events] == ["death", "restart", "ended"]


@pytest.mark.parametrize(
    ("how", "code"),
    [
        (ABORT.format(words="Assertion `ready' failed.\n"), -6),
        ("os.kill(os.getpid(), 11)", -11),
        ("sys.exit(3)", 3),
        ("raise MemoryError('mine')", 1),
    ],
    ids=["abort", "segfault", "exit", "exception"],
)
def test_another_death_is_the_scripts_own_business(fitroom: Run, tmp_path: Path, how: str, code: int) -> None:
    done = run(fitroom, tmp_path, DIES.format(how=how, lives_at=4), "--budget", "1GiB")
    assert done.returncode == code
    assert done.stdout == "1024 1\n"
    assert "starting it again" not in done.stderr
    assert "died of memory" not in done.stderr


def test_a_kill_that_was_not_for_memory_is_followed_by_the_same_again(fitroom: Run, tmp_path: Path) -> None:
    done = run(fitroom, tmp_path, DIES.format(how="os.kill(os.getpid(), 9)", lives_at=4), "--budget", "1GiB")
    assert done.returncode == -9
    assert done.stdout == "1024 1\n" * 3
    assert "ended by signal 9, and nothing shows that it was memory" in done.stderr
    assert "the process was ended by a signal 3 times" in done.stderr
    assert "died of memory" not in done.stderr


def test_deaths_without_progress_end_with_an_account(fitroom: Run, tmp_path: Path) -> None:
    done = run(fitroom, tmp_path, DIES.format(how=BAD_ALLOC, lives_at=10**6))
    assert done.returncode == -6
    assert len(done.stdout.splitlines()) == 3
    assert "the process died of memory 3 times (terminate called" in done.stderr
    assert "none: the script ended with signal 6" in done.stderr
    assert "Traceback" not in done.stderr


def test_progress_resets_the_count(fitroom: Run, tmp_path: Path) -> None:
    # Each attempt gets one step further than the one before.
    steps = "from fitroom.training.log import Log; Log().tell('progress', steps=told['slices']); "
    done = run(fitroom, tmp_path, DIES.format(how=steps + BAD_ALLOC, lives_at=256))
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 6


READS = "import sys; print(sys.stdin.read()); sys.stdout.flush(); "


def test_a_restart_reads_standard_input_again_where_it_is_a_file(fitroom: Run, tmp_path: Path) -> None:
    (tmp_path / "input").write_text("before\nrows\n")
    script = DIES.format(how=BAD_ALLOC, lives_at=4).replace("import json", READS + "import json")
    with (tmp_path / "input").open("rb") as file:
        os.lseek(file.fileno(), len("before\n"), os.SEEK_SET)
        done = run(fitroom, tmp_path, script, "--budget", "1GiB", stdin=file)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "rows\n\n1024 1\nrows\n\n614 4\n"
    assert "cannot be read again" not in done.stderr


def test_a_restart_says_that_a_pipe_cannot_be_read_again(fitroom: Run, tmp_path: Path) -> None:
    script = DIES.format(how=BAD_ALLOC, lives_at=4).replace("import json", READS + "import json")
    done = run(fitroom, tmp_path, script, "--budget", "1GiB", input="rows\n")
    assert done.stdout == "rows\n\n1024 1\n\n614 4\n"
    assert "what it read from standard input cannot be read again" in done.stderr


TRAINS = """
import numpy as np, keras
from keras import layers
keras.utils.set_random_seed(1)
model = keras.Sequential([
    keras.Input((96, 96, 3)), layers.Conv2D(32, 3, activation="relu"), layers.LayerNormalization(),
    layers.Conv2D(32, 3, activation="relu"), layers.GlobalAveragePooling2D(), layers.Dense(10),
])
model.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
x = np.random.default_rng(0).random((128, 96, 96, 3), np.float32)
history = model.fit(x, np.arange(128) % 10, batch_size=128, epochs=2, verbose=0)
print(int(model.optimizer.iterations), history.history["loss"])
"""


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[float]]:
    """What the training gives with memory enough."""
    path = tmp_path_factory.mktemp("plain") / "script.py"
    path.write_text(TRAINS)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True, env=unlimited())
    return result(done.stdout)


def unlimited() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("TF_CPU")}


def result(text: str) -> tuple[str, list[float]]:
    updates, _, losses = text.strip().splitlines()[-1].partition(" ")
    return updates, [float(loss) for loss in losses.strip("[]").split(",")]


def check(text: str, expected: tuple[str, list[float]]) -> None:
    updates, losses = result(text)
    assert updates == expected[0]
    assert losses == pytest.approx(expected[1], rel=1e-4)


def test_an_address_space_limit_that_aborts_tensorflow_is_survived(
    python: Run, tmp_path: Path, expected: tuple[str, list[float]]
) -> None:
    (tmp_path / "script.py").write_text(TRAINS)
    environment = {name: "" for name in os.environ if name.startswith("TF_CPU")}
    size = address_space(python) + 1000 * MIB

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (size, size))

    plain = python("script.py", cwd=str(tmp_path), env=environment, preexec_fn=limit)
    assert plain.returncode != 0, "it did not run out"
    done = python("-m", "fitroom", "run", "script.py", cwd=str(tmp_path), env=environment, preexec_fn=limit)
    assert done.returncode == 0, done.stderr[-3000:]
    check(done.stdout, expected)


def address_space(python: Run) -> int:
    """What TensorFlow and Keras take before they train."""
    code = "import keras, tensorflow as tf; tf.zeros(1) + 1; print(open('/proc/self/status').read())"
    text = python("-c", code, env={name: "" for name in os.environ if name.startswith("TF_CPU")}).stdout
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("VmPeak:"))


def test_a_kill_by_the_control_group_is_survived(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    expected: tuple[str, list[float]],
) -> None:
    # GIVEN a control group whose limit the training exceeds, with a kernel that does what Linux does
    group = FakeGroup(1 * GIB)
    monkeypatch.setattr(limits, "uses", group.uses)
    monkeypatch.setattr(host, "memory_kills", group.kills)
    monkeypatch.setattr(supervising, "_PERIOD", 0.05)
    (tmp_path / "script.py").write_text(TRAINS)
    (tmp_path / "sitecustomize.py").write_text(
        "from fitroom.devices import limits\nfrom pathlib import Path\n"
        "rss = lambda pid: int(Path(f'/proc/{pid}/statm').read_text().split()[1]) * 4096\n"
        f"limits.uses = lambda pid: [limits.Use('the control group', {group.limit}, rss(pid))]\n"
    )
    for name in unlimited().keys() ^ os.environ.keys():
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    # WHEN it runs under supervision
    with group:
        outcome = supervise(Job("script.py"), lambda event: None)
    # THEN it was killed, and came to its end with a limit on tensors that leaves room for the rest
    assert outcome.code == 0
    assert "oom_kill counter rose" in str(outcome.record.of("death")[0].data["evidence"])
    assert group.killed == 1
    check(capfd.readouterr().out, expected)


class FakeGroup:
    """A memory control group that a thread keeps: counts what children use, and kills what is too large."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.killed = 0
        self._pids: set[int] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def kills(self) -> int:
        return self.killed

    def uses(self, pid: int) -> list[limits.Use]:
        self._pids.add(pid)
        return [limits.Use("the control group", self.limit, self._resident(pid))]

    def _keep(self) -> None:
        while not self._ended.wait(0.01):
            for pid in list(self._pids):
                if self._resident(pid) > self.limit:
                    self.killed += 1
                    os.kill(pid, 9)
                    self._pids.discard(pid)

    @staticmethod
    def _resident(pid: int) -> int:
        try:
            return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
        except (OSError, IndexError):
            return 0


# --- signals ---------------------------------------------------------------------------------------------------------

SLEEPS = """
import time
try:
    print("ready", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("stopped", flush=True)
    {then}
"""


def start(folder: Path, script: str) -> subprocess.Popen[str]:
    (folder / "script.py").write_text(script)
    command = [sys.executable, "-m", "fitroom", "run", "script.py"]
    child = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def test_ctrl_c_once_stops_cleanly(tmp_path: Path) -> None:
    child = start(tmp_path, SLEEPS.format(then="raise SystemExit(7)"))
    child.send_signal(2)
    out, _ = child.communicate(timeout=20)
    assert out == "stopped\n"
    assert child.returncode == 7


def test_ctrl_c_twice_stops_at_once(tmp_path: Path) -> None:
    child = start(tmp_path, SLEEPS.format(then="time.sleep(60)"))
    child.send_signal(2)
    assert child.stdout is not None
    assert child.stdout.readline() == "stopped\n"
    child.send_signal(2)
    child.communicate(timeout=20)
    assert child.returncode == -9


def test_sigterm_is_passed_on(tmp_path: Path) -> None:
    child = start(tmp_path, SLEEPS.format(then="pass"))
    child.send_signal(15)
    child.communicate(timeout=20)
    assert child.returncode == -15


def test_the_script_dies_with_its_supervisor(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)")
    command = [sys.executable, "-m", "fitroom", "run", "script.py"]
    child = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert child.stdout is not None
    pid = int(child.stdout.readline())
    child.kill()
    child.wait()
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]:
            break
        time.sleep(0.05)
    else:
        pytest.fail("it outlived its supervisor")
    child.stdout.close()


def test_a_signal_to_the_group_reaches_the_script_once(tmp_path: Path) -> None:
    saves = "import time\n    time.sleep(0.5)\n    print('saved', flush=True)"
    (tmp_path / "script.py").write_text(SLEEPS.format(then=saves))
    command = [sys.executable, "-m", "fitroom", "run", "script.py"]
    child = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    os.killpg(child.pid, 2)
    out, _ = child.communicate(timeout=20)
    assert out == "stopped\nsaved\n"
    assert child.returncode == 0


def test_a_script_outlives_those_who_listen(tmp_path: Path) -> None:
    # GIVEN a standard error that nobody reads any more, and something to say
    script = "from fitroom.training.log import Log\nimport time\ntime.sleep(0.5)\n"
    script += (
        "Log().tell('rung', remedy='micro_batch', size=2, exact=True, changed='')\ntime.sleep(1)\nopen('finished', 'w')"
    )
    (tmp_path / "script.py").write_text(script)
    command = [sys.executable, "-m", "fitroom", "run", "script.py"]
    child = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE)
    assert child.stderr is not None
    child.stderr.close()
    # THEN it comes to its end
    assert child.wait(20) == 0
    assert (tmp_path / "finished").exists()


def test_lines_keep_their_order_in_one_file(fitroom: Run, tmp_path: Path) -> None:
    script = "import sys\nfor i in range(50):\n    print('out', i, flush=True)\n    print('err', i, file=sys.stderr)"
    (tmp_path / "script.py").write_text(script)
    with (tmp_path / "log").open("w") as log:
        command = [sys.executable, "-m", "fitroom", "run", "-q", "script.py"]
        subprocess.run(command, cwd=tmp_path, stdout=log, stderr=log, check=True)
    assert (tmp_path / "log").read_text().split("\n")[:-1] == [
        f"{name} {i}" for i in range(50) for name in ("out", "err")
    ]


def test_memory_is_not_said_to_have_sufficed_where_it_did_not(fitroom: Run, tmp_path: Path) -> None:
    done = run(fitroom, tmp_path, "raise MemoryError('Unable to allocate 9 TiB for an array')")
    assert done.returncode == 1
    assert "it ended because memory ran out" in done.stderr
    assert "memory sufficed" not in done.stderr


# --- the record ------------------------------------------------------------------------------------------------------


def test_a_record_of_a_killed_run_is_readable(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "from fitroom.training.log import Log\nimport os\nlog = Log()\n"
        "for i in range(5): log.tell('progress', steps=i)\n"
        "os.kill(os.getppid(), 9)\nos.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-m", "fitroom", "run", "--record", "here", "script.py"], cwd=tmp_path, check=False)
    path = tmp_path / "here" / "record.jsonl"
    with path.open("a") as file:
        file.write('{"kind":"progress","ti')
    record = Record.read(path)
    assert [event.data["steps"] for event in record.events] == [0, 1, 2, 3, 4]
    assert record.torn == 1


@pytest.mark.parametrize("where", [".fitroom", "asked"])
def test_a_folder_that_cannot_be_written_does_not_stop_the_training(fitroom: Run, tmp_path: Path, where: str) -> None:
    (tmp_path / where).write_text("a file where the folder should be")
    options = ["--record", "asked"] if where == "asked" else []
    done = run(fitroom, tmp_path, "print('trained')", *options)
    assert done.returncode == 0
    assert done.stdout == "trained\n"
    assert "cannot write to" in done.stderr
    assert where in done.stderr
    assert "Traceback" not in done.stderr


def test_a_full_disk_does_not_stop_the_training(fitroom: Run, tmp_path: Path) -> None:
    def limit() -> None:  # no file may grow beyond this: the record's first lines fit
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    done = run(fitroom, tmp_path, DIES.format(how=BAD_ALLOC, lives_at=4), "--budget", "1GiB", preexec_fn=limit)
    assert done.returncode == 0, done.stderr
    assert "cannot write its record to" in done.stderr
    assert "starting it again" in done.stderr
    assert "Traceback" not in done.stderr
    assert Record.read(tmp_path / ".fitroom" / "script-1" / "record.jsonl").events == ()


def test_a_folder_with_a_record_is_not_written_over(fitroom: Run, tmp_path: Path) -> None:
    run(fitroom, tmp_path, "print(1)", "--record", "one")
    before = (tmp_path / "one" / "record.jsonl").read_bytes()
    done = run(fitroom, tmp_path, "print(1)", "--record", "one")
    assert done.returncode == 2
    assert "holds a record already" in done.stderr
    assert (tmp_path / "one" / "record.jsonl").read_bytes() == before
