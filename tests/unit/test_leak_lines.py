"""The lines that add to a variable, and who holds it: found by name."""

from __future__ import annotations

import gc
import inspect
from pathlib import Path
from types import SimpleNamespace

import pytest

from fitroom.leaks import adding, holders, sizes

SOURCE = """\
kept = []
for n in range(3):
    kept.append(n)
class A:
    def __init__(self):
        self.log = {"loss": []}
        self.parent = None
    def add(self, x, child):
        self.log["loss"].append(x)
        child.parent = self
def f():
    seen = g()
    seen = h([seen, 1])
    total += 1
    cache[n] = 2
    deep.setdefault(n, []).append(3)
"""


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (["kept"], 3), (["loss", "log"], 9), (["log"], 9), (["seen"], 13), (["total"], 14), (["cache"], 15),
        (["deep"], 16), (["nothing", "kept"], 3), (["parent"], 10),
    ],
)  # fmt: skip
def test_the_line_that_adds_is_found(tmp_path: Path, names: list[str], line: int) -> None:
    file = tmp_path / "script.py"
    file.write_text(SOURCE)
    assert adding.lines(names, [str(file)])[0].line == line


def test_the_line_that_ties_is_found(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(SOURCE)
    assert adding.tying(["parent"], [str(file)])[0].line == 10
    assert adding.lines(["nobody"], [str(file)]) == []


def test_a_file_that_is_no_python_says_nothing(tmp_path: Path) -> None:
    file = tmp_path / "cell.py"
    file.write_text("%matplotlib inline\nkept.append(1)\n")
    assert adding.lines(["kept"], [str(file)]) == []


def test_a_variable_of_a_function_under_way_is_found_and_not_kept() -> None:
    kept = [[1, 2, 3]]
    found = holders.find(kept, inspect.currentframe())
    assert found is not None
    assert (found.name, found.keys) == ("kept", ("kept",))
    inner = kept[0]
    held = holders.find(inner, inspect.currentframe())
    assert held is not None
    before = len(gc.get_referrers(kept))
    for _ in range(5):
        holders.find(kept, inspect.currentframe())
    assert len(gc.get_referrers(kept)) <= before


def test_the_way_to_a_container_is_named() -> None:
    state = SimpleNamespace(log={"outputs": [1, 2, 3]})
    outputs = state.log["outputs"]
    del outputs
    found = holders.find(state.log, inspect.currentframe())
    assert found is not None
    assert found.keys == ("log", "state")


def test_sizes_are_those_of_what_is_held() -> None:
    numpy = pytest.importorskip("numpy")
    assert sizes.of(numpy.zeros(1000)).total == pytest.approx(8000, abs=64)
    assert sizes.of([numpy.zeros(1000)] * 50).total == pytest.approx(400_000, rel=0.02)
    assert sizes.of({n: {"x": numpy.zeros(1000)} for n in range(50)}).total == pytest.approx(400_000, rel=0.1)
    whole = numpy.zeros(1_000_000)
    assert sizes.of(whole[:3]).total > 7_000_000, "a view keeps all of it"
