"""The lines that add to a variable, and who holds it: found by name."""

from __future__ import annotations

import gc
import inspect
import queue
import textwrap
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
        ("if len(kept) > 9:\n    kept.append(1)", False),
        ("if len(kept) < 9:\n    kept.append(1)\nelse:\n    kept[at] = 1", True),
        ("if len(kept) < 9:\n    pass\nelse:\n    kept.clear()", True),
        ("if len(self) >= self.capacity:\n    self.kept.pop(0)\nself.kept.append(x)", True),
        ("self.kept.append(x)\nself.kept = self.kept[-self.size :]", True),
        ("self.kept.append(x)\nself.kept[:] = [one for one in self.kept if one.is_new]", True),
        ("kept[key] = x\nwhile sum(one.nbytes for one in kept.values()) > cap:\n    kept.popitem(last=False)", True),
        ("if self.count >= self.cap:\n    del self.kept[0]", True), ("if self.full():\n    heapq.heappop(kept)", True),
        ("if pending:\n    kept.get()", True), ("x = kept.get(key)\nkept[key] = x", False),
        ("heapq.heappush(kept, x)\nheapq.heappop(kept)", True), ("kept.append(x)\nprint(kept[-1])", False),
        ("if len(self.kept) == 32:\n    flush(self.kept)\n    self.kept = []\nself.kept.append(x)", True),
        ("if self.kept is None:\n    self.kept = []\nself.kept.append(x)", False),
        ("if not hasattr(self, 'kept'):\n    self.kept = []\nself.kept.append(x)", False),
        ("if self.count < self.cap:\n    self.kept.append(x)\nelse:\n    self.kept[self.at] = x", True),
        ("def f():\n    kept = []\n    for x in y:\n        kept.append(x)\n    kept.clear()", False),
        ("def f():\n    kept = []\n    for x in y:\n        kept.append(x)\n        kept = kept[-9:]", True),
        ("def f():\n    if train:\n        kept = []\n        for x in y:\n            kept.append(x)", False),
        ("def on_epoch_end(self, epoch):\n    self.kept = []", True), ("def reset(self):\n    self.kept = []", False),
        ("def on_train_begin(self):\n    self.kept = []", False),
        ("def f(store):\n    if len(store) > 9:\n        store.pop()\ndef g():\n    f(kept)", True),
    ],
)  # fmt: skip
def test_a_bound_that_is_written_in_the_source_is_seen(tmp_path: Path, text: str, is_bounded: bool) -> None:
    file = tmp_path / "script.py"
    text = text if text.startswith("def") else "def push(self, x):\n    global kept\n" + textwrap.indent(text, "    ")
    file.write_text(text + "\n")
    assert adding.is_bounded(["kept"], [str(file)]) is is_bounded


def test_a_bound_of_another_variable_of_that_name_is_not_taken_for_its_own(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text("class A:\n    def f(self):\n        if x:\n            self.kept.pop()\nclass B:\n    kept = []\n")
    a, b = (adding.Scope((name,), is_class=True) for name in "AB")
    assert adding.is_bounded(["kept"], [str(file)], a)
    assert not adding.is_bounded(["kept"], [str(file)], b)


def test_a_container_of_the_users_own_class_may_bound_itself(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    push = "    def __setitem__(self, key, value):\n        super().__setitem__(key, value)\n"
    file.write_text(f"class Lru(OrderedDict):\n{push}        if len(self) > 9:\n            self.popitem(last=False)\n")
    assert adding.is_bounded(["cache"], [str(file)], adding.Scope(), "Lru")
    assert not adding.is_bounded(["cache"], [str(file)], adding.Scope(), "Other")


def test_a_queue_that_has_a_size_is_bounded() -> None:
    pending: queue.Queue[int] = queue.Queue(maxsize=5)
    forever: queue.Queue[int] = queue.Queue()
    scene = Scene(inspect.currentframe())
    for one, bound in ((pending, 5), (forever, None)):
        found = holders.find(one.queue, scene)
        assert found is not None
        assert found.bound == bound


def test_of_many_files_only_those_with_the_name_are_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    plain = source._parsed
    monkeypatch.setattr(source, "_parsed", lambda file, text: parsed.append(file) or plain(file, text))
    files = [tmp_path / f"m{number}.py" for number in range(100)]
    for number, file in enumerate(files):
        file.write_text(f"class C{number}:\n    pass\n" if number < 98 else "def f():\n    losses.append(1)\n")
    names = list(map(str, files))
    for _ in range(3):
        assert [place.file for place in adding.lines(["losses"], names[99:], others=names)] == names[99:]
        assert not adding.is_bounded(["losses"], names)
    assert parsed == [names[99], names[98]]


def test_reading_the_source_takes_only_so_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "script.py"
    file.write_text(SOURCE)
    monkeypatch.setattr(source, "_spent", 1e9)
    assert adding.lines(["kept"], [str(file)]) == []


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


@pytest.mark.parametrize(
    ("text", "is_gathered"),
    [
        ("kept = []\nfor x in y:\n    kept.append(x)\nscore(np.concatenate(kept))", True),
        ("kept, z = [], []\nfor x in y:\n    kept.append(x)\ntf.concat([k.numpy() for k in kept], 0)", True),
        ("for e in n:\n    kept = []\n    for x in y:\n        kept.append(x)\n    np.vstack(kept)", True),
        ("with scope:\n    kept = []\n    for x in y:\n        kept.append(x)\nnp.concatenate(kept)", True),
        ("kept = []\nfor x in y:\n    kept.append(x)\nprint(np.mean(kept))", False),
        ("kept = []\nfor e in n:\n    for x in y:\n        kept.append(x)\nnp.concatenate(kept)", False),
        ("kept = []\nwhile True:\n    kept.append(x)\nnp.concatenate(kept)", False),
        ("kept = []\nfor x in y:\n    kept.append(x)\n    np.concatenate(kept)", False),
    ],
)
def test_what_one_pass_gathers_to_be_joined_has_a_bound(tmp_path: Path, text: str, is_gathered: bool) -> None:
    for name, inner in (("script.py", text), ("function.py", "def f():\n" + textwrap.indent(text, "    "))):
        (tmp_path / name).write_text(inner + "\n")
        assert adding.is_bounded(["kept"], [str(tmp_path / name)]) is is_gathered
