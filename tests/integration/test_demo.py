from __future__ import annotations

import json

from tests.conftest import Run

WITHOUT_TENSORFLOW = """
import sys
from fitroom import versions
versions.tensorflow = lambda packages: None
from fitroom.commands import main
sys.exit(main(["demo"]))
"""


def test_the_demo_shows_what_a_failed_step_changes(fitroom: Run) -> None:
    done = fitroom("demo", "--json")
    assert done.returncode == 0, done.stderr
    everything = json.loads(done.stdout)
    result = everything["plain"]
    changed = {one["name"] for one in result["variables"] if one["changed"]}
    assert result["ran_out"]
    assert result["wanted_bytes"] > 0
    # The seed, the statistics, the counter and some of the weights: all that "catch and go on" would get wrong.
    assert "optimizer|adam/iteration" in changed
    assert "statistics and seeds|cnn/norm1/moving_mean" in changed
    assert any("seed_generator" in name for name in changed)
    weights = {one["name"] for one in result["variables"] if one["name"].startswith("weights|")}
    assert 0 < len(weights & changed) < len(weights)
    # Guarded, the same step leaves no trace; and where slices keep the math, the training is carried through.
    assert not any(one["changed"] for one in everything["guarded"]["variables"])
    assert "allow=('micro_batch',)" in everything["guarded"]["message"]
    assert 1 <= everything["carried"]["out_of_memory"] <= 2
    assert everything["carried"]["updates"] == everything["unlimited"]["updates"] == 4
    assert everything["unlimited"]["out_of_memory"] == 0
    assert everything["difference"] < 1e-4


def test_without_tensorflow_the_demo_says_what_to_install(python: Run) -> None:
    done = python("-c", WITHOUT_TENSORFLOW)
    assert done.returncode == 2
    assert "pip install 'fitroom[tf]'" in done.stderr
    assert "Traceback" not in done.stderr
