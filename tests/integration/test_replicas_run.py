"""Trainings on several replicas under `fitroom run`: rescued, resumed, or refused with the reason."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import killing
from tests.conftest import Run
from tests.integration.test_seeds import EXPECT, run

BUDGETS = {
    "002_1_batch_size_search.py": "1800MiB",
    "002_2_tf_data_pipeline.py": "120MiB",
    "002_3_custom_loop.py": "80MiB",
}


@pytest.mark.chaos  # a minute; a stopped training that goes on is below
def test_kills_change_nothing_on_replicas(tmp_path: Path) -> None:
    wanted = killing.plain(tmp_path / "plain", "2", "replicated")
    run = killing.Killed(tmp_path / "killed", "2", ["step", "checkpoint", "step"], pause=0.05, script="replicated")
    assert run.code == 0, run.said[-3000:]
    assert run.kills == 3
    assert killing.differences(killing.results(tmp_path / "killed"), wanted) == []
    assert "exactly that of plain Python" in run.said


def test_another_number_of_replicas_is_refused(fitroom: Run, tmp_path: Path) -> None:
    # GIVEN a training on two replicas that was stopped
    killing.stopped(tmp_path, "2", "replicated")
    # WHEN it is to go on on three
    without_limit = dict.fromkeys(os.environ.keys() - killing.environment().keys(), "")
    done = fitroom("run", "--resume", cwd=str(tmp_path), env=without_limit | {"REPLICAS": "3"})
    # THEN it is refused, with what would differ, and can still go on on two
    assert done.returncode == 2
    assert "it ran on 2 replicas, and there are 3 now: each would have another share of the batch" in done.stderr
    done = fitroom("run", "--resume", cwd=str(tmp_path), env=without_limit)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.chaos) if name != "002_3_custom_loop.py" else name for name in BUDGETS],
)
def test_a_seed_script_is_carried_through_on_two_replicas(python: Run, tmp_path: Path, name: str) -> None:
    facts = run(python, name, tmp_path, BUDGETS[name], "-m", "fitroom", "run", more=["2"])
    assert facts["code"] == 0, facts["stderr"][-2000:]
    assert facts["reached"] == []
    assert facts["updates"] == EXPECT[name]["updates"]
    assert "memory was short" in facts["stderr"] or "a step ran out of memory" in facts["stderr"]


# A loop inside of one function may then wait for ever, and so may its test.
@pytest.mark.chaos
@pytest.mark.parametrize("name", ["002_1_batch_size_search.py", "002_2_tf_data_pipeline.py"])
def test_plain_python_runs_out_on_two_replicas(python: Run, tmp_path: Path, name: str) -> None:
    facts = run(python, name, tmp_path, BUDGETS[name], stop=True, more=["2"])
    assert [*facts["errors"], *facts["reached"]], "it did not run out"
