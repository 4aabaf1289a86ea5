"""What all tests share: no stray cache, no TensorFlow chatter, and helpers to run real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fitroom.devices import pocket

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # an allocator's dump is hundreds of lines
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the tests are the same on a machine with a GPU
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # and on every CPU: on some TensorFlow takes other kernels, and says so
THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
os.environ.update(dict.fromkeys(THREADS, "1"))  # in this process the same bits every time
os.environ.update(pocket.environment("2GiB"))  # tests in this process run on the pocket device

import tensorflow as tf  # noqa: E402 # with the settings above

# As many devices as the tests of replicas take, before anything starts TensorFlow. Nobody else takes a second one.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 4
)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts us in the background has it ignored

ROOT = Path(__file__).resolve().parent.parent

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has a cache folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def python() -> Run:
    """Run Python in a process of its own: ``python("-c", code, env={...})``."""

    def run(*arguments: str, env: dict[str, str] | None = None, **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # type: ignore[call-overload, no-any-return]
            [sys.executable, *arguments],
            # A process of its own runs as a user's would, with all threads: some pipelines need more than one.
            env={**{name: value for name, value in os.environ.items() if name not in THREADS}, **(env or {})},
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
            **options,
        )

    return run


@pytest.fixture
def fitroom(python: Run) -> Run:
    """Run the command line: ``fitroom("env", "--json")``."""

    def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
        return python("-m", "fitroom", *arguments, **options)

    return run
