"""`fitroom estimate train.py`: scripts of many shapes, stopped at their first training."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import THREADS, Run

BEGIN = """
import keras, numpy as np, tensorflow as tf
from keras import layers as kl
print("some output")
x, y = np.zeros((64, 24), np.float32), np.zeros((64,), np.int64)
def make():
    model = keras.Sequential([keras.Input((24,)), kl.Dense(48, "relu"), kl.Dense(3, "softmax")])
    model.compile("adam", "sparse_categorical_crossentropy")
    return model
"""
SCRIPTS = {
    "argparse": (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--batch', type=int)\n"
        "model = make()\nmodel.fit(x, y, batch_size=parser.parse_args().batch)\n",
        ["--batch", "12"],
        12,
    ),
    "function": ("def main():\n    make().fit(x, y)\nif __name__ == '__main__':\n    main()\n", [], 32),
    "class": (
        "class Trainer:\n    def __init__(self): self.model = make()\n"
        "    def run(self): return self.model.fit(x=x, y=y, batch_size=16, epochs=3)\nTrainer().run()\n",
        [],
        16,
    ),
    "dataset": (
        "make().fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(20).repeat(), steps_per_epoch=9)\n",
        [],
        20,
    ),
    "generator": (
        "def batches():\n    while True:\n        yield x[:10], y[:10]\nmake().fit(batches(), steps_per_epoch=3)\n",
        [],
        10,
    ),
    "py_dataset": (
        "class Batches(keras.utils.PyDataset):\n    def __len__(self): return 4\n"
        "    def __getitem__(self, place): return x[:14], y[:14]\nmake().fit(Batches())\n",
        [],
        14,
    ),
    "train_on_batch": ("model = make()\nfor _ in range(100):\n    model.train_on_batch(x[:18], y[:18])\n", [], 18),
    "own_class": (  # says nothing of itself, so that it is measured where it is
        "class Net(keras.Model):\n    def __init__(self, width):\n        super().__init__()\n"
        "        self.one, self.two = kl.Dense(width), kl.Dense(3, 'softmax')\n"
        "    def call(self, x): return self.two(self.one(x))\n"
        "net = Net(40)\nnet.compile('sgd', 'sparse_categorical_crossentropy')\nnet.fit(x, y, batch_size=8)\n",
        [],
        8,
    ),
    "own_fit": (
        "class Net(keras.Model):\n    def fit(self, *args, **kwargs):\n        return super().fit(*args, **kwargs)\n"
        "inner = make()\nnet = Net(inner.inputs, inner.outputs)\n"
        "net.compile('sgd', 'sparse_categorical_crossentropy')\nnet.fit(x, y, batch_size=9)\n",
        [],
        9,
    ),
    "function_by_hand": (
        "model, optimizer = make(), keras.optimizers.Adam()\n@tf.function\ndef step(x, y):\n"
        "    with tf.GradientTape() as tape:\n"
        "        loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, model(x, training=True)))\n"
        "    gradients = tape.gradient(loss, model.trainable_variables)\n"
        "    optimizer.apply_gradients(zip(gradients, model.trainable_variables))\n    return loss\n"
        "for a, b in tf.data.Dataset.from_tensor_slices((x, y)).batch(15):\n    step(a, b)\n",
        [],
        15,
    ),
    "loop": (
        "model, optimizer = make(), keras.optimizers.Adam()\nwith tf.GradientTape() as tape:\n"
        "    loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y[:11], model(x[:11])))\n"
        "optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)\n",
        [],
        11,
    ),
    "spawned": (
        "import multiprocessing\ndef train():\n    make().fit(x, y, batch_size=13)\n    open('late.txt', 'w')\n"
        "if __name__ == '__main__':\n    process = multiprocessing.get_context('spawn').Process(target=train)\n"
        "    process.start()\n    process.join()\n",
        [],
        13,
    ),
    "forked": (
        "import os\nif os.fork() == 0:\n    make().fit(x, y, batch_size=19)\n    os._exit(0)\nos.wait()\n",
        [],
        19,
    ),
    "hidden_step": (  # neither its name nor its code tells that it trains
        "model, optimizer = make(), keras.optimizers.Adam()\ndef real(x, y):\n    with tf.GradientTape() as tape:\n"
        "        loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, model(x)))\n"
        "    gradients = tape.gradient(loss, model.trainable_variables)\n"
        "    optimizer.apply(gradients, model.trainable_variables)\nsteps = {'one': real}\n"
        "@tf.function\ndef step(x, y):\n    return steps['one'](x, y)\nstep(x[:17], y[:17])\n",
        [],
        17,
    ),
    "rate_first": (
        "model, optimizer = make(), keras.optimizers.Adam()\n@tf.function\ndef step(rate, x, y):\n"
        "    with tf.GradientTape() as tape:\n"
        "        loss = rate[0] * tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, model(x)))\n"
        "    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)\n"
        "step(tf.constant([0.1]), x[:22], y[:22])\n",
        [],
        22,
    ),
    "few_samples": ("make().fit(x[:6], y[:6], batch_size=1000)\n", [], 6),
}
QUICK = ("argparse", "own_class", "function_by_hand")


def write(folder: Path, source: str, name: str = "train.py") -> str:
    path = folder / name
    path.write_text(BEGIN + source)
    return str(path)


def answers(done: Any) -> list[dict[str, Any]]:
    assert done.returncode in (0, 1), done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.chaos]) for name in SCRIPTS]
)
def test_a_script_is_stopped_at_its_first_training(name: str, fitroom: Run, tmp_path: Path) -> None:
    source, arguments, batch = SCRIPTS[name]
    # Whatever comes after the training, at exit too, does not happen.
    late = "import atexit\natexit.register(lambda: open('late.txt', 'w'))\n"
    after = "if __name__ == '__main__':\n    open('after.txt', 'w')\n"
    script = write(tmp_path, late + source + after)
    done = fitroom("estimate", "--json", "--gpu", "T4", script, *arguments, cwd=tmp_path)
    (found,) = answers(done)
    assert done.returncode == 0
    assert found["footprint"]["batch_size"] == batch
    assert found["footprint"]["how"] == "measured"
    assert found["where"].startswith("train.py:")
    parts = found["footprint"]["parts"]
    assert parts["weights"] > 24 * 40 * 4
    assert found["gpus"][0]["largest_batch"] > batch
    assert "some output" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.py"]


@pytest.mark.chaos
def test_a_budget_and_a_plan_and_another_batch_size(fitroom: Run, tmp_path: Path) -> None:
    source = """
model = keras.Sequential([keras.Input((32, 32, 3)), *[kl.Conv2D(32, 3, padding="same") for _ in range(4)], kl.Flatten(),
                          kl.Dense(2)])
model.compile("sgd", "mse")
model.fit(np.zeros((256, 32, 32, 3), np.float32), np.zeros((256, 2), np.float32), batch_size=256)
"""
    script = write(tmp_path, source)
    plain = fitroom("estimate", "--json", "--budget", "100MiB", script)
    (one,) = answers(plain)
    assert plain.returncode == 1  # does not fit
    assert one["budget"]["largest_batch"] < 256
    sliced = fitroom("estimate", "--budget", "100MiB", "--plan", "micro_batch=16", "--batch-size", "128", script)
    assert sliced.returncode == 0, sliced.stderr[-2000:]
    assert "Training at batch 128 with micro_batch=16" in sliced.stdout
    assert "the budget" in sliced.stdout
    assert "fits" in sliced.stdout


@pytest.mark.chaos
def test_a_step_by_hand_that_xla_compiles_takes_what_was_said(fitroom: Run, tmp_path: Path) -> None:
    source = """
model, optimizer = make(), keras.optimizers.Adam()
x, y = np.zeros((16384, 24), np.float32), np.zeros((16384,), np.int64)
@tf.function(jit_compile=True)
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, model(x, training=True)))
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
for _ in range(3):
    step(x, y)
print("peak", tf.config.experimental.get_memory_info("CPU:0")["peak"])
"""
    script = write(tmp_path, source)
    (found,) = answers(fitroom("estimate", "--json", "--gpu", "T4", script, cwd=tmp_path))
    real = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    said, peak = sum(found["footprint"]["parts"].values()), int(real.stdout.split()[-1])
    assert abs(said - peak) <= found["footprint"]["band"] * peak


@pytest.mark.chaos
def test_all_trainings(fitroom: Run, tmp_path: Path) -> None:
    source = """
for width in (8, 16):
    model = keras.Sequential([keras.Input((24,)), kl.Dense(width), kl.Dense(3, "softmax")])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(x, y, epochs=2, batch_size=width)
    print(max(history.history["val_accuracy"]), history.history["loss"][-1])
    model.train_on_batch(x, y)
"""
    found = answers(fitroom("estimate", "--json", "--all", write(tmp_path, source)))
    assert [one["footprint"]["batch_size"] for one in found] == [8, 64, 16, 64]


@pytest.mark.chaos
def test_a_module(fitroom: Run, tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    write(tmp_path / "package", "import sys\nmake().fit(x, y, batch_size=int(sys.argv[1]))\n")
    (found,) = answers(fitroom("estimate", "--json", "-m", "package.train", "21", cwd=tmp_path))
    assert found["footprint"]["batch_size"] == 21


@pytest.mark.chaos
def test_callbacks_write_nothing(fitroom: Run, tmp_path: Path) -> None:
    source = "from keras.callbacks import *\n"
    source += "make().fit(x, y, callbacks=[CSVLogger('log.csv'), ModelCheckpoint('m.keras')])\n"
    answers(fitroom("estimate", "--json", write(tmp_path, source), cwd=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


@pytest.mark.chaos
def test_what_else_is_in_the_process_is_not_the_step_s(fitroom: Run, tmp_path: Path) -> None:
    source, _, _ = SCRIPTS["own_class"]
    held = "held = tf.data.Dataset.from_tensor_slices(np.zeros((50_000_000,), np.float64))\n"
    (found,) = answers(fitroom("estimate", "--json", write(tmp_path, held + source)))
    assert sum(found["footprint"]["parts"].values()) < 1 << 20


def test_what_goes_wrong_in_measuring_does_not_reach_the_script(fitroom: Run, tmp_path: Path) -> None:
    source = """
model, optimizer = make(), keras.optimizers.Adam()
@tf.function
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x * tf.random.uniform([16, 1])))
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
try:
    step(x[:16])
except Exception:
    pass
open("final.txt", "w")
"""
    done = fitroom("estimate", write(tmp_path, source), cwd=tmp_path)
    assert done.returncode == 2
    assert "have to follow the batch" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "final.txt").exists()


@pytest.mark.chaos
def test_ctrl_c_is_not_the_script_s_to_handle(tmp_path: Path) -> None:
    source = "try:\n    make().fit(x, y)\nexcept KeyboardInterrupt:\n    open('handled.txt', 'w')\n"
    command = [sys.executable, "-m", "fitroom", "estimate", write(tmp_path, "print('ready')\n" + source)]
    environment = {name: value for name, value in os.environ.items() if name not in THREADS}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as run:
        assert run.stderr is not None
        while "ready" not in (line := run.stderr.readline()):
            assert line
        time.sleep(1)
        os.killpg(run.pid, signal.SIGINT)
        assert run.wait(60) == 130
        assert "Traceback" not in run.stderr.read()
    assert not (tmp_path / "handled.txt").exists()


class TestMistakes:
    def test_a_script_that_trains_nothing(self, fitroom: Run, tmp_path: Path) -> None:
        script = tmp_path / "train.py"
        script.write_text("print('nothing')")
        done = fitroom("estimate", str(script))
        assert done.returncode == 2
        assert "no training was recognised" in done.stderr
        assert done.stdout == ""

    def test_a_script_that_fails_before_it_trains(self, fitroom: Run, tmp_path: Path) -> None:
        script = tmp_path / "train.py"
        script.write_text("raise ValueError('of its own')")
        done = fitroom("estimate", str(script))
        assert done.returncode == 2
        assert "ValueError: of its own" in done.stderr
        assert "ended before its first training" in done.stderr
        assert "sitecustomize" not in done.stderr

    def test_a_model_that_cannot_be_estimated_is_told_of(self, fitroom: Run, tmp_path: Path) -> None:
        source = "model = make()\nmodel.compiled = False\nmodel.fit(x, y)\n"
        done = fitroom("estimate", write(tmp_path, source))
        assert done.returncode == 2
        assert "cannot be estimated: train.py:" in done.stderr
        assert "not compiled" in done.stderr

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["trian.py"], "fitroom estimate train.py"),
            ([], "fitroom estimate needs a script"),
            (["--gpu", "RTX 3909", "train.py"], "RTX 3090"),
            (["--budget", "lots", "train.py"], "lots"),
            (["--plan", "magic", "train.py"], "magic"),
            (["--batch-size", "0", "train.py"], "a whole number from 1 up"),
        ],
    )
    def test_wrong_use(self, fitroom: Run, tmp_path: Path, arguments: list[str], said: str) -> None:
        (tmp_path / "train.py").write_text("")
        done = fitroom("estimate", *arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr
        assert "Traceback" not in done.stderr
