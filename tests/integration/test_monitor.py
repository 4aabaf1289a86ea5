"""`MemoryMonitor` on real trainings: what it writes down, what it leaves alone, and what it says they waited for."""

from __future__ import annotations

import csv
import gc
import json
import os
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import fitroom
from fitroom import callbacks
from fitroom.callbacks import MemoryMonitor
from fitroom.devices import pocket, timeline_file
from fitroom.devices.watching import Watch
from fitroom.errors import UsageError
from fitroom.training import monitoring
from fitroom.training.progress import counting
from tests.conftest import ROOT, Run
from tests.replica_cases import mirrored
from tests.scripts.pipelines import model


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(counting, "meter", None)
    for cached in (callbacks._home, callbacks._record):
        cached.cache_clear()


@pytest.mark.chaos  # it goes by times: other work on the machine is what a training waits for, too
@pytest.mark.parametrize("how", ["guarded", "plain"])
def test_what_a_training_waits_for_is_named(python: Run, tmp_path: Path, how: str) -> None:
    done = python("-m", "tests.scripts.pipelines", how, cwd=str(tmp_path), env={"PYTHONPATH": f"{ROOT}/src:{ROOT}"})
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    if found["disk"] == "unreadable":
        found.pop("disk")
    assert found == {name: name.partition(",")[0] for name in found}, done.stderr[-3000:]


def fit(*monitors: Any, guarded: bool = False) -> tuple[list[Any], list[float]]:
    keras.utils.set_random_seed(3)
    net = model()
    if guarded:
        fitroom.guard(net)
    random = np.random.default_rng(0)
    x, y = random.random((48, 64, 64, 3), np.float32), random.integers(0, 10, 48)
    history = net.fit(x, y, batch_size=16, epochs=2, verbose=0, callbacks=list(monitors))
    return net.get_weights(), history.history["loss"]


@pytest.mark.parametrize("guarded", [True, False])
def test_a_training_that_is_watched_is_the_training_that_it_was(guarded: bool) -> None:
    plain, losses = fit(guarded=guarded)
    monitor = MemoryMonitor(every=0.05, verbose=0)
    before = counting.steps
    watched, watched_losses = fit(monitor, guarded=guarded)
    assert all(np.array_equal(a, b) for a, b in zip(plain, watched, strict=True))
    assert losses == watched_losses
    assert counting.steps - before == 6


def test_each_steps_peak_is_there_and_the_model_is_left_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    net, seen = model(), []

    class Peaks(keras.callbacks.Callback):  # type: ignore[misc] # Keras has no types
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            seen.append(net.train_function)

    monitor = MemoryMonitor(every=0.02)
    x, y = np.zeros((64, 64, 64, 3), np.float32), np.zeros(64, np.int64)
    net.fit(x, y, batch_size=32, verbose=0, callbacks=[monitor, Peaks()])
    resident = pocket.use().current
    peak = monitor.timeline.peak("device_peak")
    assert peak is not None
    assert peak > resident + 8_000_000  # the activations of a step, which are gone between steps
    assert monitor.timeline.peak("device_limit") == 2 << 30
    assert net.train_function is seen[0].__wrapped__, "the model keeps what stood in for its function"
    said = capsys.readouterr().err
    assert said.startswith("fitroom: memory at its peak: device ")
    assert "of 2 GiB, process " in said


def test_tables_boards_and_folders_hold_what_was_measured(tmp_path: Path) -> None:
    monitor = MemoryMonitor(every=0.05, csv="memory.csv", tensorboard="board", verbose=0)
    fit(monitor)
    assert monitor.monitor is not None
    monitor.monitor.close()
    peak = monitor.timeline.peak("rss")
    with (tmp_path / "memory.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert max(float(row["rss_peak"]) for row in rows) == peak
    events = [
        tf.compat.v1.Event.FromString(record.numpy())
        for record in tf.data.TFRecordDataset([str(one) for one in (tmp_path / "board").iterdir()])
    ]
    assert events[0].file_version == "brain.Event:2"
    values = [one.simple_value for event in events for one in event.summary.value if one.tag == "fitroom/rss"]
    assert max(values) == pytest.approx(peak, rel=1e-6)
    (folder,) = Path(".fitroom").glob("*-1")
    assert timeline_file.read(folder / timeline_file.NAME).peak("rss") == peak


def test_one_folder_holds_all_trainings_of_a_process(tmp_path: Path) -> None:
    for _ in range(2):
        fit(MemoryMonitor(verbose=0))
    assert len(list(Path(".fitroom").glob("*/record.jsonl"))) == 1


def test_a_monitor_that_never_looks_makes_no_sense() -> None:
    with pytest.raises(UsageError, match=r"Received: every=0\. Expected: seconds above 0"):
        MemoryMonitor(every=0)
    for every in (float("inf"), float("nan")):
        with pytest.raises(UsageError):
            MemoryMonitor(every=every)


class Fails(keras.callbacks.Callback):  # type: ignore[misc] # Keras has no types
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        raise RuntimeError("on purpose")


def test_a_training_that_fails_can_be_watched_again() -> None:
    monitor = MemoryMonitor(every=0.05, verbose=0)
    with pytest.raises(RuntimeError):
        fit(monitor, Fails())
    fit(monitor)
    assert monitor.timeline.peak("made") == counting.steps
    assert not [one for one in threading.enumerate() if one.name == "fitroom-monitor"]


def test_a_training_that_was_interrupted_is_watched_no_longer() -> None:
    class Stops(keras.callbacks.Callback):  # type: ignore[misc] # Keras has no types
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            raise KeyboardInterrupt

    net, monitor = model(), MemoryMonitor(every=0.05, verbose=0)
    with pytest.raises(KeyboardInterrupt):
        net.fit(np.zeros((8, 64, 64, 3)), np.zeros(8), verbose=0, callbacks=[monitor, Stops()])
    until = time.monotonic() + 60
    while any(one.name == "fitroom-monitor" for one in threading.enumerate()) and time.monotonic() < until:
        time.sleep(0.02)
    assert not [one for one in threading.enumerate() if one.name == "fitroom-monitor"]
    assert not hasattr(net.train_function, "_fitroom_counts")
    assert not counting._watchers
    assert monitor.timeline.peak("made") == counting.steps


def test_a_loop_of_ones_own_can_be_watched() -> None:
    net = model()
    monitor = MemoryMonitor(every=0.02, verbose=0)
    calls = keras.callbacks.CallbackList([monitor], model=net)

    def begin() -> None:
        calls.on_train_begin()

    begin()
    for _ in range(3):
        net.train_on_batch(np.zeros((8, 64, 64, 3)), np.zeros(8))
    assert [one for one in threading.enumerate() if one.name == "fitroom-monitor"]
    calls.on_train_end()
    assert monitor.timeline.peak("device_peak")


def test_models_that_were_watched_are_not_kept() -> None:
    kept = []
    for _ in range(2):
        net = model()
        net.fit(np.zeros((8, 64, 64, 3)), np.zeros(8), verbose=0, callbacks=[MemoryMonitor(verbose=0)])
        kept.append(weakref.ref(net))
    del net
    keras.backend.clear_session()
    gc.collect()
    assert [one() for one in kept] == [None, None]


def test_of_replicas_each_one_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(monitoring.meter, "find", lambda budget, devices=(): seen.append(devices))
    with mirrored().scope():
        net = model()
    net.fit(np.zeros((8, 64, 64, 3)), np.zeros(8), batch_size=8, verbose=0, callbacks=[MemoryMonitor(verbose=0)])
    assert [len(devices) for devices in seen] == [2]  # type: ignore[arg-type] # names


def test_a_board_that_cannot_be_written_any_longer_ends_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(monitoring.TensorBoardFile, "add", full)
    monitor = MemoryMonitor(every=0.02, tensorboard="board", verbose=0)
    with pytest.warns(UserWarning, match="cannot write for TensorBoard any longer: No space left") as told:
        fit(monitor)
    assert len(told) == 1
    assert monitor.timeline.peak("made") == counting.steps


def test_what_goes_wrong_with_watching_does_not_end_a_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(Watch, "look", broken)
    with pytest.warns(UserWarning, match="does not watch any longer: RuntimeError: on purpose"):
        weights, _ = fit(MemoryMonitor(verbose=0))
    assert weights


def test_a_model_compiled_anew_after_a_failure_trains_with_its_new_optimizer() -> None:
    net, monitor = model(), MemoryMonitor(verbose=0)
    x, y = np.ones((16, 64, 64, 3), np.float32), np.zeros(16, np.int64)
    with pytest.raises(RuntimeError):
        net.fit(x, y, verbose=0, callbacks=[monitor, Fails()])
    net.compile(keras.optimizers.SGD(0.0), "mse")
    before = net.get_weights()
    net.fit(x, np.zeros((16, 10)), verbose=0, callbacks=[monitor])
    assert all(np.array_equal(a, b) for a, b in zip(before, net.get_weights(), strict=True))


def test_a_run_that_was_gone_on_with_does_not_blame_a_monitor() -> None:
    from fitroom.training.callback_states import CallbackStates

    monitor = MemoryMonitor(verbose=0)
    fit(monitor)
    assert [one["left_out"] for one in CallbackStates([monitor]).read([])] == [[]]


def test_under_fitroom_run_it_leaves_the_folder_to_the_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "FITROOM_RUN", json.dumps({}))
    monitor = MemoryMonitor(every=0.05, verbose=0)
    fit(monitor)
    assert monitor.timeline.peak("rss")
    assert not Path(".fitroom").exists()


def test_two_monitors_of_one_training_count_its_steps_once() -> None:
    net, before = model(), counting.steps
    x, y = np.zeros((48, 64, 64, 3), np.float32), np.zeros(48, np.int64)
    net.fit(x, y, batch_size=16, verbose=0)
    plain = net.train_function
    monitors = [MemoryMonitor(every=0.02, verbose=0), MemoryMonitor(every=0.03, verbose=0)]
    net.fit(x, y, batch_size=16, verbose=0, callbacks=monitors)
    assert counting.steps - before == 3
    assert net.train_function is plain
    assert all(one.timeline.peak("device_peak") for one in monitors)
    (folder,) = Path(".fitroom").glob("*-1")
    written = timeline_file.read(folder / timeline_file.NAME)
    assert sum(one.points for one in written) == sum(one.points for one in monitors[0].timeline)


def test_the_peak_of_a_last_validation_is_there() -> None:
    net, monitor = model(), MemoryMonitor(every=60, verbose=0)
    x, y = np.zeros((256, 64, 64, 3), np.float32), np.zeros(256, np.int64)
    net.fit(x[:4], y[:4], batch_size=4, verbose=0, callbacks=[monitor])
    alone = monitor.timeline.peak("device_peak")
    monitor = MemoryMonitor(every=60, verbose=0, record="validated")
    data = {"validation_data": (x, y), "validation_batch_size": 256}
    net.fit(x[:4], y[:4], batch_size=4, verbose=0, callbacks=[monitor], **data)
    validated = monitor.timeline.peak("device_peak")
    assert alone is not None
    assert validated is not None
    assert validated > alone + 256 * 60 * 60 * 8 * 4


def test_steps_are_counted_however_they_are_run() -> None:
    x, y = np.zeros((64, 64, 64, 3), np.float32), np.zeros(64, np.int64)
    for options in ({"run_eagerly": True}, {"steps_per_execution": 4}):
        net, before, monitor = model(), counting.steps, MemoryMonitor(every=0.02, verbose=0)
        net.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), **options)
        net.fit(x, y, batch_size=8, verbose=0, callbacks=[monitor])
        assert counting.steps - before == 8, options


def test_a_table_in_a_folder_that_is_not_there_yet_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Leaves(keras.callbacks.Callback):  # type: ignore[misc] # Keras has no types
        def on_train_begin(self, logs: Any = None) -> None:
            (tmp_path / "elsewhere").mkdir()
            monkeypatch.chdir(tmp_path / "elsewhere")

    fit(MemoryMonitor(csv="new/folder/memory.csv", verbose=0), Leaves())
    with (tmp_path / "new/folder/memory.csv").open() as file:
        assert list(csv.DictReader(file))


def test_what_cannot_be_written_is_told_and_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.warns(UserWarning) as told:
        weights, _ = fit(MemoryMonitor(csv="file/memory.csv", tensorboard="file", verbose=0))
    assert weights
    table, board = sorted(str(one.message).replace(str(tmp_path), "") for one in told)
    assert board.startswith("fitroom cannot write to /file for TensorBoard: ")
    assert table.startswith("fitroom cannot write /file/memory.csv: ")


def test_a_training_that_fails_leaves_its_table_and_board(tmp_path: Path) -> None:
    monitor = MemoryMonitor(every=0.02, csv="memory.csv", tensorboard="board", verbose=0)
    with pytest.raises(RuntimeError):
        fit(monitor, Fails())
    assert monitor.monitor is not None
    monitor.monitor.close()  # as at the end of the process
    with (tmp_path / "memory.csv").open() as file:
        assert max(float(row["made_peak"]) for row in csv.DictReader(file)) == counting.steps
    assert not [one for one in threading.enumerate() if one.name == "fitroom-monitor"]


def test_a_guards_budget_is_what_a_monitor_goes_by(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    class Seen(Watch):
        def __init__(self, pid: int, file: Any, budget: int | None = None) -> None:
            seen.append(budget)
            super().__init__(pid, file, budget)

    monkeypatch.setattr(monitoring, "Watch", Seen)
    net = model()
    with pytest.warns(UserWarning, match="only decides how large slices are"):
        fitroom.guard(net, budget="1GiB")
    net.fit(np.zeros((8, 64, 64, 3)), np.zeros(8), verbose=0, callbacks=[MemoryMonitor(verbose=0)])
    assert seen == [1 << 30]


def test_a_folder_of_code_from_the_command_line_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["-c"])
    assert callbacks._home(None).name == "python-1"
