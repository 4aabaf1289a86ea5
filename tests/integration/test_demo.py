from __future__ import annotations

import json

import pytest

from tests.conftest import Run

WITHOUT_TENSORFLOW = """
import sys
from fitroom import versions
versions.tensorflow = lambda packages: None
from fitroom.commands import main
sys.exit(main(["demo"]))
"""


@pytest.mark.chaos  # a minute and a half; each of its parts is tested by itself
def test_the_demo_shows_a_failed_step_and_a_rescue(fitroom: Run) -> None:
    done = fitroom("demo", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    step = result["step"]
    changed = {one["name"] for one in step["variables"] if one["changed"]}
    assert step["ran_out"]
    assert step["wanted_bytes"] > 0
    # The seed, the statistics, the counter and some of the weights: all that "catch and go on" would get wrong.
    assert "optimizer|adam/iteration" in changed
    assert "statistics and seeds|cnn/norm1/moving_mean" in changed
    assert any("seed_generator" in name for name in changed)
    weights = {one["name"] for one in step["variables"] if one["name"].startswith("weights|")}
    assert 0 < len(weights & changed) < len(weights)
    # The loop dies under plain Python and is carried through under fitroom, to the same weights.
    assert result["plain"]["code"] != 0
    assert result["fitroom"]["code"] == 0
    said = "\n".join(result["fitroom"]["said"])
    # The second one is near the edge of its budget: planned, or carried through.
    assert "is the quickest that fits and keeps the math" in said
    assert "micro_batch=" in said
    assert "activations are computed again" in said
    assert set(result["differences"]) == {"LayerNormalization", "BatchNormalization"}
    assert max(result["differences"].values()) < 1e-4
    # Killed in its second training, it goes on, and its weights are the very same.
    said = "\n".join(result["killed"]["said"])
    assert "ended by signal 9" in said
    assert "training 1 had come to its end" in said
    assert "training 2 goes on with epoch" in said
    assert result["differences_after_kill"] == {"LayerNormalization": 0.0, "BatchNormalization": 0.0}


def test_without_tensorflow_the_demo_says_what_to_install(python: Run) -> None:
    done = python("-c", WITHOUT_TENSORFLOW)
    assert done.returncode == 2
    assert "pip install 'fitroom[tf]'" in done.stderr
    assert "Traceback" not in done.stderr
