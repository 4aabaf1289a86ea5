"""`fitroom.isolated`: a function in a process of its own."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fitroom
from fitroom.devices import gpu
from fitroom.errors import DiedOfMemory, FitroomError, ProcessDied, UsageError
from tests.conftest import Run

isolated = fitroom.isolated


def test_it_runs_elsewhere_and_hands_its_result_back() -> None:
    there, total = isolated(lambda values, *, times: (os.getpid(), values.sum() * times))(np.arange(5), times=2)
    assert there != os.getpid()
    assert total == 20


def test_what_it_closes_over_goes_along() -> None:
    offset = 40

    def add(value: int) -> int:
        """Adds."""
        return value + offset

    assert isolated(add)(2) == 42
    assert isolated(add).__doc__ == "Adds."


def test_large_arguments_and_results_do_not_block() -> None:
    big = np.arange(3_000_000)
    assert (isolated(lambda values: values + 1)(big) == big + 1).all()


def test_all_memory_is_given_back() -> None:
    def hold() -> int:
        return len(bytearray(300 << 20))

    before = resident()
    for _ in range(3):
        assert isolated(hold)() == 300 << 20
    assert resident() - before < 50 << 20


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


class Picky(Exception):
    """Cannot be unpacked: its arguments are not what it was made of."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def test_an_exception_arrives_with_its_traceback() -> None:
    def fail() -> None:
        raise KeyError("no such layer")

    with pytest.raises(KeyError, match="no such layer") as caught:
        isolated(fail)()
    assert 'raise KeyError("no such layer")' in str(caught.value.__cause__)


def test_an_exception_that_cannot_be_handed_over_arrives_as_text() -> None:
    def fail() -> None:
        raise Picky(1, 2)

    with pytest.raises(RuntimeError, match="Picky: 1 and 2"):
        isolated(fail)()


def test_a_result_that_cannot_be_handed_back_is_told() -> None:
    with pytest.raises(FitroomError, match="cannot be handed back"):
        isolated(lambda: (value for value in range(3)))()


def test_arguments_that_cannot_be_handed_over_are_told() -> None:
    with pytest.raises(UsageError, match="cannot be handed to another process"):
        isolated(print)(value for value in range(3))
    with pytest.raises(UsageError, match="takes a function"):
        isolated(3)  # type: ignore[arg-type] # that is the mistake


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (lambda: os._exit(3), "exit code 3"),
        (lambda: sys.exit(4), "exit code 4"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "Killed"),
    ],
)
def test_a_process_that_ends_without_a_result_is_told(end: Any, words: str) -> None:
    with pytest.raises(ProcessDied, match=words) as caught:
        isolated(end)()
    assert not isinstance(caught.value, MemoryError)


def test_a_death_of_memory_is_a_memory_error() -> None:
    def die() -> None:
        os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
        os.abort()

    with pytest.raises(DiedOfMemory, match="died of memory") as caught:
        isolated(die)()
    assert isinstance(caught.value, MemoryError)


def test_what_it_prints_appears(capfd: pytest.CaptureFixture[str]) -> None:
    isolated(lambda: (print("out"), print("err", file=sys.stderr)))()
    said = capfd.readouterr()
    assert said.out == "out\n"
    assert said.err == "err\n"


def test_in_a_script_whose_output_is_no_file(python: Run) -> None:
    # A notebook's streams are objects, not files: what the process prints must go through them.
    code = """
import io, sys, fitroom
sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
def talk():
    print("out"); print("err", file=sys.stderr)
    return 5
result = fitroom.isolated(talk)()
sys.__stdout__.write(repr((result, sys.stdout.getvalue(), sys.stderr.getvalue())))
"""
    assert python("-c", code).stdout == repr((5, "out\n", "err\n"))


def test_a_parent_that_holds_the_gpu_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "held", lambda pid: 3 << 30 if pid == os.getpid() else 0)
    with pytest.warns(UserWarning, match="holds 3 GiB on the GPU itself"):
        assert isolated(abs)(-2) == 2


def test_trainings_in_a_loop_are_each_in_a_process_of_their_own(python: Run, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("""
import sys, fitroom
def train(units):
    import keras, numpy as np
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(units), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model.fit(np.ones((8, 4)), np.ones(8), verbose=0).history["loss"][0]
print([round(fitroom.isolated(train)(units), 3) > 0 for units in (2, 4)], "tensorflow" in sys.modules)
""")
    assert python("script.py", cwd=str(tmp_path)).stdout == "[True, True] False\n"
