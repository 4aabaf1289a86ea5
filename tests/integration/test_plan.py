"""`fitroom.plan` on real models, and `fitroom plan train.py`."""

from __future__ import annotations

from pathlib import Path

import keras
import pytest
from keras import layers as kl

import fitroom
from fitroom.core import Plan
from fitroom.devices import pocket
from fitroom.errors import UsageError
from tests.conftest import THREADS, Run
from tests.plan_cases import cnn

RUNS = """
import sys
import numpy as np
import fitroom
from fitroom.training.guarding import events
from tests.plan_cases import cnn
model = fitroom.guard(cnn(normed=sys.argv[2] == "True"), plan=sys.argv[1])
model.fit(np.zeros((512, 32, 32, 3), np.float32), np.zeros(512), batch_size=256, verbose=0)
print(sum(event.kind == "oom" for event in events(model)))
"""


def test_slices_where_samples_are_independent_and_they_fit(python: Run) -> None:
    found = fitroom.plan(cnn(), 256, "120MiB")
    assert found.fits
    assert found.exact
    assert isinstance(found.setting("micro_batch"), int)
    done = python("-c", RUNS, str(found), "False", env={**pocket.environment("120MiB"), "FITROOM_CACHE": "off"})
    assert done.stdout.split() == ["0"], done.stderr[-2000:]  # not one step ran out


@pytest.mark.chaos
def test_recomputation_where_samples_are_mixed(python: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in THREADS:  # on one thread TensorFlow puts the way back's side branches off, and it saves little
        monkeypatch.delenv(name)
    plain = fitroom.estimate(cnn(normed=True), 256)
    budget = f"{int(plain.peak * 0.75) >> 20}MiB"
    found = fitroom.plan(cnn(normed=True), 256, budget)
    assert found.fits
    assert [remedy.name for remedy in found.remedies] == ["recompute"]
    done = python("-c", RUNS, str(found), "True", env={**pocket.environment(budget), "FITROOM_CACHE": "off"})
    assert done.stdout.split() == ["0"], done.stderr[-2000:]


@pytest.mark.chaos
def test_slices_of_mixed_samples_only_where_they_are_allowed() -> None:
    found = fitroom.plan(cnn(normed=True), 256, "60MiB")
    assert not found.fits
    assert "Nothing fits" in found.reason
    allowed = fitroom.plan(cnn(normed=True), 256, "60MiB", allow="micro_batch")
    assert allowed.fits
    assert not allowed.exact


@pytest.mark.chaos
def test_what_slices_take_is_what_is_measured_with_them() -> None:
    plain = fitroom.estimate(cnn(), 256)
    for slices in (2, 8):
        measured = fitroom.estimate(cnn(), 256, plan=f"micro_batch={slices}")
        assert plain.sliced(slices).peak == pytest.approx(measured.peak, rel=0.08)


def write(folder: Path) -> str:
    script = folder / "train.py"
    here = str(Path(__file__).parents[2])
    script.write_text(
        f"import sys\nsys.path.insert(0, {here!r})\nimport numpy as np\nfrom tests.plan_cases import cnn\n"
        "cnn().fit(np.zeros((256, 32, 32, 3), np.float32), np.zeros(256), batch_size=256)\n"
    )
    return str(script)


def test_a_script(fitroom: Run, tmp_path: Path) -> None:
    done = fitroom("plan", "--budget", "120MiB", write(tmp_path))
    assert done.returncode == 0, done.stderr[-2000:]
    assert "▶  micro_batch=" in done.stdout
    assert "fitroom run --budget 120MiB --plan micro_batch=" in done.stdout


@pytest.mark.chaos
def test_a_script_for_which_nothing_fits(fitroom: Run, tmp_path: Path) -> None:
    done = fitroom("plan", "--budget", "4MiB", "--json", write(tmp_path))
    assert done.returncode == 1
    assert not Plan.from_json(done.stdout).fits


def test_wrong_use() -> None:
    with pytest.raises(UsageError, match="No such remedy"):
        fitroom.plan(cnn(), 32, "1GiB", allow="magic")
    with pytest.raises(UsageError, match="not compiled"):
        fitroom.plan(keras.Sequential([keras.Input((2,)), kl.Dense(1)]), 32, "1GiB")


AHEAD = """
import sys
import numpy as np
import fitroom
from fitroom.training import guarding, looking_ahead
from tests.plan_cases import cnn
if sys.argv[1] == "easily":
    def never(*args, **kwargs):
        raise AssertionError("nothing of this is on the way where it fits easily")
    looking_ahead.foreseen = never
model = fitroom.guard(cnn(normed=sys.argv[1] == "mixed"))
x, y = np.zeros((512, 32, 32, 3), np.float32), np.zeros(512)
model.fit(x, y, batch_size=256, validation_data=(x[:300], y[:300]), verbose=0)
model.predict(x, batch_size=512, verbose=0)
print(*(event.kind for event in guarding.events(model)))
"""


def test_what_would_run_out_is_planned_before_its_first_step(python: Run, tmp_path: Path) -> None:
    environment = {**pocket.environment("120MiB"), "FITROOM_CACHE": str(tmp_path)}
    done = python("-c", AHEAD, "slices", env=environment)
    kinds = done.stdout.split()
    assert kinds[:2] == ["planned", "rung"], done.stderr[-2000:]
    assert "oom" not in kinds
    assert "looking how batches of 256 fit 120 MiB" in done.stderr
    # AND the next run remembers, and looks no more
    again = python("-c", AHEAD, "easily", env=environment)
    assert "oom" not in again.stdout.split()
    assert "rung" in again.stdout.split(), again.stderr[-2000:]


@pytest.mark.chaos
def test_recomputation_is_planned_where_samples_mix(python: Run) -> None:
    done = python("-c", AHEAD, "mixed", env={**pocket.environment("560MiB"), "FITROOM_CACHE": "off"})
    assert "planned" in done.stdout.split(), done.stderr[-2000:]
    assert "oom" not in done.stdout.split()


def test_what_fits_easily_is_not_looked_at(python: Run) -> None:
    done = python("-c", AHEAD, "easily", env={**pocket.environment("2GiB"), "FITROOM_CACHE": "off"})
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == []
    assert "fitroom" not in done.stderr
