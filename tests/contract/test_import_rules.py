"""The layout's rules, read from the imports: data flows one way, and TensorFlow stays where it belongs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent.parent / "src" / "fitroom"

# A part imports `core` and the parts above it, never below.
ORDER = (
    "errors", "orphans", "units", "patterns", "core", "oom_harmless", "oom_faces", "oom_words", "oom", "versions",
    "devices", "data", "steps", "remedies", "estimator", "planner", "training", "supervisor", "diagnosers", "leaks",
    "linter", "slim", "sweeps", "report", "callbacks", "demo", "commands", "__init__", "__main__",
)  # fmt: skip
MAY_USE_TENSORFLOW = {
    "devices",
    "data",
    "steps",
    "estimator",
    "training",
    "leaks",
    "slim",
    "callbacks",
    "demo",
}
NARROW = {"report": {"core", "units", "errors", "report"}}
SEES_EVERYTHING = {"commands", "__init__", "__main__", "demo"}


def imports(source: str) -> set[str]:
    """The modules that a source imports, at the top or inside a function, for types only or for real."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the layout"
            base = node.module or ""
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return found


def violations(part: str, source: str) -> list[str]:
    """What a module of `part` imports and must not."""
    found = []
    for name in imports(source):
        top, *rest = name.split(".")
        if top in ("tensorflow", "keras") and part not in MAY_USE_TENSORFLOW:
            found.append(f"{part} imports {name}: TensorFlow belongs elsewhere")
        if top != "fitroom" or not rest or rest[0] not in ORDER:
            continue
        other = rest[0]
        if part in NARROW and other not in NARROW[part]:
            found.append(f"{part} imports {other}: it may import only {sorted(NARROW[part])}")
        elif part not in SEES_EVERYTHING and other != "core" and ORDER.index(other) > ORDER.index(part):
            found.append(f"{part} imports {other}, which is below it")
    return found


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_what_lies_above_it(path: Path) -> None:
    part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert part in ORDER, f"{part} has no place in the layout: add it to ORDER"
    assert violations(part, path.read_text()) == []


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ("report", "from fitroom.training import guard"),
        ("report", "import fitroom.training.rungs"),
        ("core", "from fitroom import oom"),
        ("oom", "import tensorflow as tf"),
        ("steps", "def f():\n    from fitroom.training import guard"),
        ("diagnosers", "import keras"),
        ("planner", "from fitroom.training import summary"),
        ("supervisor", "from fitroom.leaks import in_scripts"),
        ("training", "from fitroom.leaks import watching"),
        ("report", "from fitroom.leaks.leak import Leak"),
    ],
)
def test_the_rules_catch_what_they_should(part: str, source: str) -> None:
    assert violations(part, source)


def test_only_seams_touch_private_attributes_of_keras_and_tensorflow() -> None:
    """`x._y` on anything but self and cls, outside the seam modules, is someone else's private attribute."""
    for path in SOURCE.rglob("*.py"):
        if path.name.endswith("_seams.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
                owner = node.value
                if isinstance(owner, ast.Name) and (owner.id, node.attr) == ("os", "_exit"):  # documented
                    continue
                is_own = isinstance(owner, ast.Name) and owner.id in ("self", "cls", "other")
                assert is_own, f"{path.relative_to(SOURCE)}:{node.lineno} touches .{node.attr}"
