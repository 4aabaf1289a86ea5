"""The seed scripts do what `expect.json` says of them, under plain Python."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import pytest

from fitroom.devices import pocket
from fitroom.units import parse_bytes
from tests.conftest import ROOT, Run

SEEDS = ROOT / "examples" / "seeds"
EXPECT: dict[str, dict[str, Any]] = json.loads((SEEDS / "expect.json").read_text())
KINDS = {"device_oom", "host_oom", "no_oom", "own_bug"}


def run(
    python: Run, name: str, folder: Path, limit: str, *prefix: str, stop: bool = False, more: list[str] | None = None
) -> dict[str, Any]:
    """Run a seed script, watched, on the device's or the host's limit; `prefix` comes before it, `more` after it."""
    expected = EXPECT[name]
    on_host = expected["kind"] == "host_oom"
    budget = "12GiB" if on_host else limit
    environment = {
        "PYTHONPATH": str(ROOT / "tests" / "seed_watch"),
        "SEED_FACTS": str(folder / "facts.json"),
        "SEED_SCRIPT": name,
        "SEED_STOP_AT_FIRST_ERROR": "1" if stop else "",
        # under `fitroom run` the budget is the command's business
        **(dict.fromkeys(pocket.environment("1GiB"), "") if prefix else pocket.environment(budget)),
    }
    options = ["--budget", budget] if prefix and not on_host else []
    size = parse_bytes(limit)
    limits = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_DATA, (size, size))} if on_host else {}
    done = python(
        *prefix,
        *options,
        str(SEEDS / name),
        *expected["arguments"],
        *(more or []),
        env=environment,
        cwd=str(folder),
        **limits,
    )
    facts: dict[str, Any] = json.loads((folder / "facts.json").read_text())
    return {**facts, "code": done.returncode, "stderr": done.stderr}


def under_fitroom(python: Run, name: str, folder: Path, **options: bool) -> dict[str, Any]:
    """Run a seed script at its budget, as a user would."""
    return run(python, name, folder, EXPECT[name]["budget"], "-m", "fitroom", "run", **options)


def test_every_script_has_an_entry_and_every_entry_a_script() -> None:
    assert sorted(EXPECT) == sorted(path.name for path in SEEDS.glob("*.py"))
    assert {entry["kind"] for entry in EXPECT.values()} <= KINDS


RESCUED = [name for name, entry in EXPECT.items() if entry["kind"] == "device_oom"]
# Each takes half a minute or more, and is rescued in a way that another one shows, too: in `make chaos`.
LIKE_OTHERS = (
    "000_1_reduce_batch_size.py", "000_2_gradient_accumulation.py", "000_3_checkpoint_and_release.py",
    "001_3_memory_growth.py", "002_1_batch_size_search.py", "002_2_tf_data_pipeline.py", "003_1_large_batch.py",
    "003_2_smaller_batch.py", "003_3_large_embedding.py", "004_1_gradient_accumulation.py",
)  # fmt: skip
# Each real out-of-memory error costs ten seconds: the plain runs of scripts that are rescued are left to `make chaos`.
PLAIN = [
    pytest.param(name, marks=pytest.mark.chaos) if name in RESCUED else name
    for name, entry in EXPECT.items()
    if entry["kind"].endswith("_oom")
]


def check_recognised(error: dict[str, Any], kind: str) -> None:
    assert error["resource"] == "host_memory"  # the pocket device is the host's memory, too
    assert error["certain"]
    assert error["type"].endswith("MemoryError" if kind == "host_oom" else "ResourceExhaustedError")


@pytest.mark.parametrize("name", PLAIN)
def test_a_script_runs_out_at_its_budget_or_does_not(python: Run, tmp_path: Path, name: str) -> None:
    # WHEN the script runs plainly at its budget
    entry = EXPECT[name]
    facts = run(python, name, tmp_path, entry["budget"], stop=True)
    # THEN the real error was raised, even where the script caught it, and it is recognised
    errors = [*facts["errors"], *facts["reached"]]
    if entry["kind"] == "no_oom":
        assert errors == []
        assert facts["updates"] == entry["updates"]
    else:
        assert errors, "it did not run out"
        check_recognised(errors[0], entry["kind"])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.chaos) if name in LIKE_OTHERS else name for name in RESCUED]
)
def test_a_script_is_carried_through(python: Run, tmp_path: Path, name: str) -> None:
    # WHEN the script runs at its budget, unmodified, under fitroom
    entry = EXPECT[name]
    facts = under_fitroom(python, name, tmp_path)
    # THEN it ends well, its own except is never entered, and it makes as many updates as without a limit
    assert facts["code"] == 0, facts["stderr"][-2000:]
    assert facts["reached"] == []
    assert facts["updates"] == entry["updates"]
    ended_well = ["memory was short", "a step ran out of memory"]
    if name == "003_3_large_embedding.py":  # its update goes some rows at a time, and needs less than plain Keras'
        ended_well.append("memory sufficed")
    assert any(words in facts["stderr"] for words in ended_well)
    # It is planned, so that it does not run out; the input pipeline may move meanwhile, and what a plan takes is
    # foreseen to some percent only. `python -m bench plan` counts.
    assert len(facts["errors"]) <= 2, "it ran out again and again"


@pytest.mark.parametrize("name", [name for name, entry in EXPECT.items() if entry["kind"] == "host_oom"])
def test_a_file_that_does_not_fit_is_mapped(python: Run, tmp_path: Path, name: str) -> None:
    facts = under_fitroom(python, name, tmp_path)
    assert facts["code"] == 0
    assert facts["reached"] == []
    assert "is mapped instead" in facts["stderr"]


@pytest.mark.parametrize("name", [name for name, entry in EXPECT.items() if entry["kind"] == "no_oom"])
def test_a_script_that_does_not_run_out_is_left_alone(python: Run, tmp_path: Path, name: str) -> None:
    facts = under_fitroom(python, name, tmp_path)
    assert facts["code"] == 0
    assert facts["updates"] == EXPECT[name]["updates"]
    assert [line for line in facts["stderr"].splitlines() if line.startswith("fitroom: ")] == [
        "fitroom: memory sufficed, and nothing was changed. Record: .fitroom/" + name.removesuffix(".py") + "-1"
    ]


@pytest.mark.chaos
@pytest.mark.parametrize("name", list(EXPECT))
def test_a_script_without_a_limit_makes_its_updates(python: Run, tmp_path: Path, name: str) -> None:
    facts = run(python, name, tmp_path, "12GiB")
    assert [*facts["errors"], *facts["reached"]] == []
    assert facts["updates"] == EXPECT[name]["updates"]
