"""The lines that add to a variable, and who holds it: found by name."""

from __future__ import annotations

import gc
import inspect
from pathlib import Path
from types import SimpleNamespace

import pytest

from fitroom.leaks import adding, holders, sizes, source
from fitroom.leaks.scene import Scene

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


TWICE = """\
losses = []
def evaluate():
    losses = []
    losses.append(1.0)
def train():
    losses = {"loss": []}
    loss += 1
    losses["loss"].append(2)
class Log:
    def add(self, x):
        self.losses.append(x)
for n in range(3):
    losses.append(3)
"""


@pytest.mark.parametrize(
    ("names", "scope", "found"),
    [
        (["losses"], adding.Scope(("evaluate",)), [4]), (["losses"], adding.Scope(("Log",), is_class=True), [11]),
        (["loss", "losses"], adding.Scope(("train",)), [8]), (["losses"], adding.Scope(), [11, 13]),
    ],
)  # fmt: skip
def test_of_two_with_the_same_name_the_one_that_is_meant_is_found(
    tmp_path: Path, names: list[str], scope: adding.Scope, found: list[int]
) -> None:
    file = tmp_path / "script.py"
    file.write_text(TWICE)
    assert [place.line for place in adding.lines(names, [str(file)], scope)] == found


ELSEWHERE = """def remember(store, value):
    store.append(value)
class Buffer:
    def __init__(self, room, items):
        self._items = items
    def put_in(self, x):
        self._items.append(x)
def train():
    kept, held, quick, other = [], [], [], {"a": []}
    Buffer(3, items=held)
    add = quick.append
    mine = other["a"]
    for n in range(3):
        remember(kept, n)
        add(n)
        mine.append(n)
"""


@pytest.mark.parametrize(("names", "line"), [(["kept"], 2), (["held"], 7), (["quick"], 15), (["a", "other"], 16)])
def test_a_line_that_adds_by_another_name_is_found(tmp_path: Path, names: list[str], line: int) -> None:
    file = tmp_path / "script.py"
    file.write_text(ELSEWHERE)
    assert adding.lines(names, [str(file)], adding.Scope(("train",)))[0].line == line


@pytest.mark.parametrize(
    ("text", "is_bounded"),
    [
        ("if len(kept) > 9:\n    kept.pop(0)", True), ("while len(self.kept) >= n:\n    del self.kept[0]", True),
        ("if len(kept) < 9 and x:\n    kept.append(x)", True), ("if 9 < len(kept):\n    kept = kept[-9:]", True),
        ("def f():\n    if len(kept) >= 9:\n        return\n    kept.append(1)", True),
        ("while len(kept) < 9:\n    kept.append(1)", False), ("if len(kept) > 9:\n    print(kept[-9:])", False),
        ("if len(kept) > 9:\n    other.pop(0)", False), ("if len(kept) % 9 == 0:\n    kept.append(1)", False),
        ("def f():\n    if len(kept) < 9:\n        return\n    use(kept)", False),  # waits until there is enough
        ("if len(kept) > 9:\n    kept.append(1)", False), ("if len(kept) < 9:\n    kept.pop()", False),
        ("if len(kept) < 9:\n    kept.append(1)\nelse:\n    kept[at] = 1", True),
        ("if len(kept) < 9:\n    pass\nelse:\n    kept.clear()", True),
    ],
)  # fmt: skip
def test_a_bound_that_is_written_in_the_source_is_seen(tmp_path: Path, text: str, is_bounded: bool) -> None:
    file = tmp_path / "script.py"
    file.write_text(text + "\n")
    assert adding.is_bounded(["kept"], [str(file)]) is is_bounded


def test_the_line_that_ties_is_found(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(SOURCE)
    assert adding.tying(["parent"], [str(file)])[0].line == 10
    assert adding.lines(["nobody"], [str(file)]) == []


def test_a_line_that_only_sets_is_left_out_where_it_will_not_do(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text("for size in sizes:\n    x = make(size)\n    y = join(y, x)\n")
    assert [place.line for place in adding.lines(["x"], [str(file)])] == [2]
    assert adding.lines(["x"], [str(file)], ranks=(source.ADDS,)) == []
    assert [place.line for place in adding.lines(["y"], [str(file)], ranks=(source.ADDS,))] == [3]


def test_a_file_that_is_no_python_says_nothing(tmp_path: Path) -> None:
    file = tmp_path / "cell.py"
    file.write_text("%matplotlib inline\nkept.append(1)\n")
    assert adding.lines(["kept"], [str(file)]) == []


def test_a_variable_of_a_function_under_way_is_found_and_not_kept() -> None:
    kept = [[1, 2, 3]]
    found = holders.find(kept, Scene(inspect.currentframe()))
    assert found is not None
    assert (found.name, found.keys) == ("kept", ("kept",))
    inner = kept[0]
    held = holders.find(inner, Scene(inspect.currentframe()))
    assert held is not None
    before = len(gc.get_referrers(kept))
    for _ in range(5):
        holders.find(kept, Scene(inspect.currentframe()))
    assert len(gc.get_referrers(kept)) <= before


def test_the_way_to_a_container_is_named() -> None:
    state = SimpleNamespace(log={"outputs": [1, 2, 3]})
    outputs = state.log["outputs"]
    del outputs
    found = holders.find(state.log, Scene(inspect.currentframe()))
    assert found is not None
    assert found.keys == ("log", "state")


def test_sizes_are_those_of_what_is_held() -> None:
    numpy = pytest.importorskip("numpy")
    assert sizes.of(numpy.zeros(1000)).total == pytest.approx(8000, abs=64)
    assert sizes.of([numpy.zeros(1000)] * 50).total == pytest.approx(400_000, rel=0.02)
    assert sizes.of({n: {"x": numpy.zeros(1000)} for n in range(50)}).total == pytest.approx(400_000, rel=0.1)
    whole = numpy.zeros(1_000_000)
    assert sizes.of(whole[:3]).total > 7_000_000, "a view keeps all of it"


def test_a_line_that_makes_room_comes_after_the_one_that_fills_it(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text("for epoch in range(9):\n    kept[epoch] = {}\n    kept[epoch][0] = outputs\n")
    assert [place.line for place in adding.lines(["kept"], [str(file)])] == [3]
