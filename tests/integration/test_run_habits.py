"""Scripts with habits of their own behave under `fitroom run` as under plain Python."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conftest import Run


@dataclass(frozen=True)
class Habit:
    """A script, how it is called, and what it reads."""

    name: str
    script: str
    arguments: tuple[str, ...] = ()
    given: str | None = None
    module: str | None = None
    files: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)


HABITS = [
    Habit("argparse", """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--budget")
print(parser.parse_args())
""", ("--lr", "0.1", "--budget", "its own")),
    Habit("argparse refuses", """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, required=True)
parser.parse_args()
"""),
    Habit("where it is", """
import os, sys
print(__name__, __file__, sys.argv, sys.path[0], os.getcwd(), __spec__, __package__, __builtins__)
print([folder for folder in sys.path if "fitroom" in folder and "site" in folder.rsplit("/", 1)[-1]])
""", ("a", "b c")),
    Habit("a module beside it", "import helper\nprint(helper.VALUE)", files={"helper.py": "VALUE = 7"}),
    Habit("python -m with relative imports", "", module="package.train", arguments=("--x", "1"), files={
        "package/__init__.py": "",
        "package/data.py": "ROWS = 3",
        "package/train.py": "import sys\nfrom .data import ROWS\nprint(__name__, __package__, ROWS, sys.argv[1:])",
    }),
    Habit("python -m of a package", "", module="package", files={
        "package/__init__.py": "", "package/__main__.py": "print('main of', __package__)",
    }),
    Habit("reads standard input", "import sys\nprint(sum(map(int, sys.stdin)))", given="1\n2\n3\n"),
    Habit("input()", "print(input('name? ').upper())", given="ada\n"),
    Habit("forks workers", """
from multiprocessing import get_context
def square(x):
    return x * x
if __name__ == "__main__":
    with get_context("fork").Pool(2) as pool:
        print(pool.map(square, range(5)))
"""),
    Habit("spawns workers", """
from multiprocessing import get_context
def square(x):
    return x * x
if __name__ == "__main__":
    with get_context("spawn").Pool(2) as pool:
        print(pool.map(square, range(5)))
"""),
    Habit("starts Python", """
import subprocess, sys
print(subprocess.run([sys.executable, "-c", "print('child'); raise SystemExit(4)"], capture_output=True))
"""),
    Habit("arguments that begin with --", "import sys; print(sys.argv)", ("--", "x", "--y")),
    Habit("sys.exit(3)", "import sys\nprint('bye')\nsys.exit(3)"),
    Habit("sys.exit with words", "import sys\nsys.exit('no data')"),
    Habit("os._exit", "import os\nprint('gone', flush=True)\nos._exit(5)"),
    Habit("an exception", """
def fail(value):
    return {}[value]
try:
    fail("a")
except KeyError as error:
    raise RuntimeError("no such thing") from error
"""),
    Habit("a syntax error", "print('a'\nx = 1"),
    Habit("an excepthook of its own", """
import sys
sys.excepthook = lambda kind, error, trace: print("hooked", kind.__name__, trace.tb_lineno)
raise ValueError("x")
"""),
    Habit("threads", """
import threading, time
def late():
    time.sleep(0.2)
    print("late")
threading.Thread(target=late).start()
print("main is done")
"""),
    Habit("a thread that fails", """
import threading
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
print("went on")
"""),
    Habit("a progress bar", """
import sys
for done in range(5):
    sys.stderr.write(f"\\r{done * 25:3d} %")
    sys.stderr.flush()
sys.stderr.write("\\n")
print(sys.stdout.isatty(), sys.stderr.isatty())
"""),
    Habit("unbuffered output", "import os\nprint('a')\nos.write(1, b'b\\n')", environment={"PYTHONUNBUFFERED": "1"}),
    Habit("buffered output", "import os\nprint('a')\nos.write(1, b'b\\n')\nprint('c')"),
    Habit("an exported notebook", """
#!/usr/bin/env python
# coding: utf-8

# In[1]:
import math
try:
    get_ipython().run_line_magic('matplotlib', 'inline')
except NameError:
    pass

# In[2]:
math.pi
print(math.pi)
"""),
    Habit("atexit", "import atexit\natexit.register(print, 'last words')\nprint('first')"),
    Habit("warnings", "import warnings\nwarnings.warn('look out')\nwarnings.warn('old', DeprecationWarning)"),
    Habit("warnings are errors", "import warnings\nwarnings.warn('no')", environment={"PYTHONWARNINGS": "error"}),
    Habit("pickles what is in it", """
import pickle
class Thing:
    pass
print(pickle.loads(pickle.dumps(Thing())).__class__)
"""),
    Habit("interrupts itself", """
import os, signal, time
print("x", flush=True)
os.kill(os.getpid(), signal.SIGINT)
time.sleep(5)
"""),
    Habit("dies of a signal", "import os, signal\nprint('x', flush=True)\nos.kill(os.getpid(), signal.SIGTERM)"),
    Habit("handles a signal", """
import os, signal
signal.signal(signal.SIGTERM, lambda number, frame: print("told", number))
os.kill(os.getpid(), signal.SIGTERM)
print(signal.pthread_sigmask(signal.SIG_BLOCK, []))
"""),
    Habit("logging", "import logging\nlogging.warning('careful')\nprint('x')"),
    Habit("asyncio", """
import asyncio
async def main():
    await asyncio.sleep(0)
    print("ran")
asyncio.run(main())
"""),
    Habit("prints much", "import sys\nprint('x' * 300_000)\nprint('y' * 300_000, file=sys.stderr)"),
    Habit("a sitecustomize of its own", "import sitecustomize\nprint(sitecustomize.VALUE)", environment={
        "PYTHONPATH": "site",
    }, files={"site/sitecustomize.py": "VALUE = 5"}),
    Habit("no sitecustomize", "import sys\nprint('usercustomize' in sys.modules)"),
]  # fmt: skip


def call(habit: Habit, folder: Path, *prefix: str) -> subprocess.CompletedProcess[str]:
    what = ["-m", habit.module] if habit.module else ["script.py"]
    return subprocess.run(
        [sys.executable, *prefix, *what, *habit.arguments],
        cwd=folder, env={**os.environ, **habit.environment}, input=habit.given, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("habit", HABITS, ids=lambda habit: habit.name)
def test_a_script_behaves_as_under_plain_python(tmp_path: Path, habit: Habit) -> None:
    for name, content in {"script.py": habit.script, **habit.files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    plain = call(habit, tmp_path)
    ours = call(habit, tmp_path, "-m", "fitroom", "run")
    assert ours.stdout == plain.stdout
    assert ours.returncode == plain.returncode
    said = "".join(line for line in ours.stderr.splitlines(keepends=True) if not line.startswith("fitroom: "))
    assert said == plain.stderr
    assert ("memory sufficed" if plain.returncode == 0 else "the script ended with") in ours.stderr


AGAIN = """
import gc
import keras, numpy as np, tensorflow as tf

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
data = tf.data.Dataset.from_tensors((np.zeros((8, 4), np.float32), np.zeros((8, 1), np.float32))).repeat(8)
gc.disable()
for _ in range(3):
    model.fit(data, verbose=0, shuffle=False)
print([type(one).__name__ for one in gc.get_objects()].count("OwnedIterator"), "iterators")
"""


def test_a_training_that_is_over_lets_its_data_go(fitroom: Run, tmp_path: Path) -> None:
    """Until garbage is collected, threads and buffers of `tf.data` would pile up."""
    (tmp_path / "train.py").write_text(AGAIN)
    done = fitroom("run", "train.py", cwd=str(tmp_path))
    assert done.stdout == "0 iterators\n", done.stderr[-2000:]
