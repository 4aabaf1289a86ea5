"""`fitroom top` on real runs: under way, ended, and none."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

from fitroom.devices import timeline_file
from tests.conftest import Run

SCRIPT = """
import time
import keras, numpy as np
from keras import layers

class Lasts(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.02)

model = keras.Sequential([keras.Input((32, 32, 3)), layers.Conv2D(16, 3), layers.Flatten(), layers.Dense(10)])
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
x, y = np.zeros((64, 32, 32, 3), np.float32), np.zeros(64, np.int64)
model.fit(x, y, batch_size=32, epochs=1000, verbose=0, callbacks=[Lasts()])
"""


def test_a_run_is_seen_while_it_is_under_way_and_after(fitroom: Run, tmp_path: Path) -> None:
    def top(*arguments: str) -> dict[str, object]:
        done = fitroom("top", "--json", *arguments, cwd=str(tmp_path))
        assert done.returncode == 0, done.stderr
        found: dict[str, object] = json.loads(done.stdout)
        return found

    assert top()["title"] == "no run under way here"
    (tmp_path / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "fitroom", "run", "--budget", "500MiB", "train.py"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=dict(os.environ)) as run:
        try:
            path, until = tmp_path / ".fitroom/train-1" / timeline_file.NAME, time.monotonic() + 120
            while time.monotonic() < until and not (path.exists() and '"stepping"' in path.read_text()):
                time.sleep(0.2)
            live = top()
            text = fitroom("top", "--once", cwd=str(tmp_path), env={"COLUMNS": "80"}).stdout
        finally:
            run.send_signal(signal.SIGTERM)
            run.communicate(timeout=60)
    assert (live["title"], live["is_running"]) == ("train-1", True)
    memory = {one["name"]: one for one in live["memory"]}  # type: ignore[attr-defined] # JSON
    assert memory["device"]["limit"] == 500 << 20
    assert 0 < memory["device"]["now"] <= memory["device"]["peak"] < 500 << 20
    assert memory["process"]["now"] > 100 << 20
    assert 0 < sum(live["split"]) < 1.01  # type: ignore[arg-type, call-overload] # JSON
    assert {"steps", "cores"} <= {one["name"] for one in live["use"]}  # type: ignore[attr-defined] # JSON
    assert max(map(len, text.splitlines())) <= 80
    assert top()["is_running"], "the machine, which is not over"
    ended = top("train-1")
    assert not ended["is_running"]
    assert "signal 15" in str(ended["state"])
    assert any(one["name"] == "steps" for one in ended["use"])  # type: ignore[attr-defined] # JSON
    assert ended["in_force"] == ["nothing: batches run whole"]


SHORT = SCRIPT.replace("epochs=1000", "epochs=45")


def test_all_steps_of_a_run_that_has_ended_are_counted(fitroom: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SHORT)
    done = fitroom("run", "train.py", cwd=str(tmp_path))
    assert done.returncode == 0, done.stderr
    shown = json.loads(fitroom("top", "train-1", "--json", cwd=str(tmp_path)).stdout)
    (steps,) = [one["text"] for one in shown["use"] if one["name"] == "steps"]
    assert steps.endswith(" a second, 90 in all")


def test_it_is_drawn_anew_for_a_window_of_another_size_and_puts_the_terminal_right(tmp_path: Path) -> None:
    ours, its = os.openpty()

    def resized(columns: int) -> None:
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def read(until: str) -> str:
        found, end = "", time.monotonic() + 60
        while until not in found and time.monotonic() < end:
            if select.select([ours], [], [], 0.1)[0]:
                found += os.read(ours, 1 << 16).decode(errors="replace")
        return found

    resized(80)
    command = [sys.executable, "-m", "fitroom", "top"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=its, stdout=its, stderr=its, start_new_session=True) as top:
        try:
            assert "no run under way here" in read("while it runs")
            for columns in range(40, 140):
                resized(columns)
                top.send_signal(signal.SIGWINCH)
            assert "no run under way here" in read("while it runs")
            top.send_signal(signal.SIGTERM)
            assert "\x1b[?1049l" in read("\x1b[?1049l"), "the other screen is left"
            assert top.wait(timeout=60) == 128 + signal.SIGTERM
        finally:
            top.kill()
            os.close(its)
            os.close(ours)
