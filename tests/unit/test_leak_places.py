"""Whose doing something is: the user's, or fitroom's own."""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tensorflow as tf

from fitroom.leaks import asking_seams
from fitroom.leaks.places import code_of, is_by_us, is_users_file
from fitroom.leaks.scene import Scene

CALL = "import inspect\ndef call(then=None):\n    return is_by_us(inspect.currentframe()) if then is None else then()\n"


def asked_through(*modules: str) -> bool:
    """What is answered where these modules called each other, the outermost first."""
    then: Any = None
    for name in reversed(modules):
        space: dict[str, Any] = {"__name__": name, "is_by_us": is_by_us}
        exec(CALL, space)
        then = functools.partial(space["call"], then)
    return bool(then())


@pytest.mark.parametrize(
    ("modules", "ours"),
    [
        (("train",), False),
        (("train", "fitroom.data.passing", "tensorflow.python.data.ops.dataset_ops", "fitroom.leaks.tf_seams"), True),
        (("train", "fitroom.training.fits", "keras.src.trainers.trainer", "tensorflow.python.data"), False),
        (("train", "tensorflow.python.data.ops.dataset_ops", "fitroom.leaks.watch"), False),
        (("fitroom.training.guarding", "train", "tensorflow.python.data"), False),
    ],
)
def test_what_fitroom_has_tensorflow_do_is_told_from_what_the_user_does(modules: tuple[str, ...], ours: bool) -> None:
    assert asked_through(*modules) is ours


class Trainer:
    @tf.function  # type: ignore[untyped-decorator]
    def step(self, x: Any) -> Any:
        return x


def test_the_code_of_a_compiled_method_is_the_users() -> None:
    bound = Trainer().step.python_function
    assert code_of(bound) is Trainer.step.python_function.__code__
    assert code_of(None) is None


def test_functions_made_anew_are_told_apart_though_they_lie_at_one_address() -> None:
    step = tf.function(lambda x, loss: loss(x))
    found = set()
    for number in range(20):
        loss = functools.partial(lambda x, by: x * by, by=number)
        found.add(asking_seams.describe_arguments(step, (1.0, loss), {})["loss"])
        del loss
    assert len(found) == 20
    once, again = (asking_seams.describe_arguments(step, (1.0, len), {}) for _ in range(2))
    assert once == again


@pytest.mark.parametrize(
    ("file", "is_users"),
    [
        ("/usr/lib/python3/dist-packages/six.py", False), ("/opt/env/lib/python3.11/site-packages/six.py", False),
        ("/home/me/train.py", True), ("/home/me/packages/train.py", True),
    ],
)  # fmt: skip
def test_an_installed_package_is_not_the_users(file: str, is_users: bool) -> None:
    assert is_users_file(file) is is_users


def test_a_module_that_is_imported_lazily_is_not_imported_by_a_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "costly_to_import.py").write_text("raise RuntimeError('it was imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = importlib.util.find_spec("costly_to_import")
    assert spec is not None
    assert spec.loader is not None
    loader = spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "costly_to_import", module)
    loader.exec_module(module)
    list(Scene(None).namespaces())


def test_modules_are_asked_for_their_files_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5000):
        module = ModuleType(f"other.m{number}")
        module.__file__ = f"/opt/site-packages/other/m{number}.py"
        monkeypatch.setitem(sys.modules, module.__name__, module)
    Scene(None)
    known = is_users_file.cache_info().misses
    Scene(None)
    assert is_users_file.cache_info().misses == known
