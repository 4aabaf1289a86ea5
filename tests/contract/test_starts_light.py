"""What must work, and start at once, without TensorFlow."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Run

LIGHT = [
    ["--help"],
    ["--version"],
    ["env"],
    ["env", "--json"],
    ["env", "--budget", "1GiB"],
    ["explain"],
    ["explain", "G1"],
    ["demo", "--help"],
    ["run", "--help"],
    ["diagnose", "--help"],
    ["explain", "fragmentation"],
    ["top", "--help"],
    ["top", "--once"],
    ["top", "--json"],
    ["explain", "retained_tensors"],
]

WITHOUT = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ImportError(f"{{name}} is blocked")
sys.meta_path.insert(0, Blocker())
from fitroom.commands import main
try:
    code = main({arguments!r})
except SystemExit as stop:
    code = stop.code
sys.exit(code)
"""


@pytest.mark.parametrize("arguments", LIGHT, ids=" ".join)
def test_light_commands_work_without_tensorflow_keras_and_numpy(python: Run, arguments: list[str]) -> None:
    blocked = ["tensorflow", "keras", "numpy", "h5py"]
    done = python("-c", WITHOUT.format(blocked=blocked, arguments=arguments))
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert done.stderr == ""


def test_importing_fitroom_loads_nothing_heavy(python: Run) -> None:
    code = "import fitroom, sys; print(sorted({'tensorflow', 'keras', 'numpy', 'rich', 'psutil'} & set(sys.modules)))"
    assert python("-c", code).stdout.strip() == "[]"


def test_every_public_name_resolves() -> None:
    import fitroom

    for name in fitroom.__all__:
        assert getattr(fitroom, name) is not None
    assert set(fitroom.__all__) <= set(dir(fitroom))
    assert fitroom.callbacks.MemoryMonitor
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        fitroom.nonsense  # noqa: B018


def test_no_module_shadows_a_public_function(python: Run) -> None:
    code = """
import pkgutil, fitroom
modules = {m.name for m in pkgutil.iter_modules(fitroom.__path__)}
print(sorted(modules & set(fitroom.__all__)))
"""
    assert python("-c", code).stdout.strip() == "[]"


def test_the_installed_requirements_do_not_bring_tensorflow() -> None:
    from importlib.metadata import requires

    unconditional = [one for one in requires("fitroom") or [] if "extra ==" not in one]
    assert unconditional
    assert not any(name in one for one in unconditional for name in ("tensorflow", "keras", "numpy"))


def test_env_tells_the_same_as_text_and_json(fitroom: Run) -> None:
    facts = json.loads(fitroom("env", "--json", "--budget", "1GiB").stdout)
    text = fitroom("env", "--budget", "1GiB").stdout
    assert facts["would_set"] == {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "1024"}
    for name, version in {**facts["packages"], **facts["would_set"], **facts["settings"]}.items():
        assert name in text
        assert version in text
    assert facts["packages"]["tensorflow-cpu"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["env", "--budget", "8 gallons"], "Received: '8 gallons'. Expected:"),
        (["env", "--budget", "99TiB"], "larger than the memory there is"),
        (["env", "--budget", "1KiB"], "at least 1 MiB"),
        (["explain", "G99"], "No such code. Received: G99."),
        (["explain", "badalloc"], "bad-alloc"),
        ([], "COMMAND"),
        (["nonsense"], "invalid choice"),
        (["diagnose"], "LOG"),
        (["diagnose", "no_such.log"], "Cannot read the log. Received: no_such.log (No such file or directory)."),
        (["diagnose", "src"], "This folder holds no run. Received: src."),
        (["diagnose", "/dev/null"], "The log is empty"),
        (["top", "no-such-run"], "No such run. Received: no-such-run."),
        (["run"], "needs a script"),
        (["run", "no_such_script.py"], "No such script. Received: no_such_script.py."),
        (["run", "--plan", "magic", "setup.py"], "Cannot read this plan"),
        (["run", "--allow", "magic", "setup.py"], "No such remedy to allow"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_use_is_told_without_a_traceback(fitroom: Run, arguments: list[str], words: str) -> None:
    done = fitroom(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_reader_that_goes_away_is_not_an_error(python: Run) -> None:
    import subprocess
    import sys

    child = subprocess.Popen(
        [sys.executable, "-m", "fitroom", "explain"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.close()
    assert child.stderr is not None
    assert child.stderr.read() == b""
    child.stderr.close()
    assert child.wait() == 0
