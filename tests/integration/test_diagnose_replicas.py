"""Trainings on two real replicas that fail here and now are diagnosed rightly from end to end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fitroom.devices import pocket
from tests.conftest import ROOT, Run

SCRIPT = str(ROOT / "tests" / "scripts" / "failing_replicas.py")


def diagnosed(python: Run, fitroom: Run, name: str, mib: int, code: int) -> dict[str, Any]:
    """What is told of the log of this training, on a pocket device of so many MiB."""
    done = python(SCRIPT, name, env={"TF_CPP_MIN_LOG_LEVEL": "0", **pocket.environment(f"{mib}MiB")})
    assert done.returncode != 0, "it did not fail"
    told = fitroom("diagnose", "-", "--json", input=done.stdout + done.stderr)
    assert told.returncode == code, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(told.stdout)
    return found


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("model_outside_scope", "outside_strategy_scope"),
        ("optimizer_outside_scope", "outside_strategy_scope"),
        ("xla_over_replicas", "xla_over_replicas"),
    ],
)
def test_a_strategy_that_is_used_wrongly_is_told(python: Run, fitroom: Run, name: str, cause: str) -> None:
    found = diagnosed(python, fitroom, name, 1000, 0)
    assert (found["resource"], found["cause"]) == ("not_exhaustion", cause)


@pytest.mark.chaos  # a real failure waits ten seconds for memory to come free
@pytest.mark.parametrize(
    ("name", "cause", "advice"),
    [
        ("whole_batch_per_replica", "whole_batch_per_replica", "model.fit("),
        ("loop_over_the_data", "batch_or_activations", "out of train_epoch"),
    ],
)
def test_the_replica_and_the_cause_are_told(python: Run, fitroom: Run, name: str, cause: str, advice: str) -> None:
    found = diagnosed(python, fitroom, name, 150, 1)
    assert found["cause"] == cause, found
    assert found["replica"] == int(found["device"][-1])  # CPU:0 or CPU:1: both run out, and either may come first
    assert advice in json.dumps(found["advice"], ensure_ascii=False), found["op"]
