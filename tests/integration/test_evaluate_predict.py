"""Evaluation and prediction survive apart from training, with the numbers of an unlimited run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import fitroom
from fitroom.devices import pocket
from fitroom.training.guarding import events
from fitroom.units import MIB
from tests import faults
from tests import own_cases as own
from tests.conftest import ROOT, Run
from tests.eval_cases import MODELS, SMALL, first, made
from tests.faults import Fault
from tests.guard_cases import OPTIMIZERS


def same(expected: Any, got: Any) -> None:
    for one, other in zip(keras.tree.flatten(expected), keras.tree.flatten(got), strict=True):
        assert isinstance(other, np.ndarray | float)
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", [pytest.param(one, marks=[pytest.mark.chaos] * (one == "lstm")) for one in MODELS])
def test_where_memory_suffices_nothing_changes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, x, y = MODELS[name]
    x, y = first(x, SMALL), first(y, SMALL)
    plain, guarded = made(name), fitroom.guard(made(name))
    for model in (plain, guarded):
        model.fit(x, y, batch_size=16, validation_split=0.25, verbose=0)
    assert plain.evaluate(x, y, batch_size=16, verbose=0) == guarded.evaluate(x, y, batch_size=16, verbose=0)
    assert plain.test_on_batch(x, y) == guarded.test_on_batch(x, y)
    for one, other in zip(
        keras.tree.flatten([plain.predict(x, batch_size=16, verbose=0), plain.predict_on_batch(x)]),
        keras.tree.flatten([guarded.predict(x, batch_size=16, verbose=0), guarded.predict_on_batch(x)]),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
    assert events(guarded) == ()
    assert "fitroom" not in capsys.readouterr().err


@pytest.mark.parametrize("name", MODELS)
def test_faults_change_no_number(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, x, y = MODELS[name]
    x, y = first(x, SMALL), first(y, SMALL)
    fault = Fault(at_calls={2, 12})
    plain, guarded = made(name), fitroom.guard(made(name, [faults.layer(fault)]))
    same(plain.evaluate(x, y, batch_size=32, verbose=0), guarded.evaluate(x, y, batch_size=32, verbose=0))
    fault.at_calls, fault.calls, fault._set = {1, 9}, 0, frozenset({1, 9})
    same(plain.predict(x, batch_size=32, verbose=0), guarded.predict(x, batch_size=32, verbose=0))
    assert {event.data["of"] for event in events(guarded)} == {"evaluate", "predict"}
    assert fault.strikes >= 2
    assert "lost nothing" in capsys.readouterr().err


def test_validation_is_guarded_apart_from_training() -> None:
    fault = Fault()
    model, plain = fitroom.guard(made("cnn", [faults.layer(fault)])), made("cnn")
    _, x, y = MODELS["cnn"]
    x, y = first(x, SMALL), first(y, SMALL)

    class Arm(keras.callbacks.Callback):
        def on_test_begin(self, logs: Any = None) -> None:
            fault._set = frozenset({fault.calls + 1})

    options = {"batch_size": 16, "validation_data": (x, y), "validation_batch_size": 32, "epochs": 2, "verbose": 0}
    got = model.fit(x, y, shuffle=False, callbacks=[Arm()], **options).history
    expected = plain.fit(x, y, shuffle=False, **options).history
    assert fault.strikes == 2
    assert {event.data["of"] for event in events(model)} == {"evaluate"}  # training was not sliced
    for key in expected:
        np.testing.assert_allclose(got[key], expected[key], rtol=1e-5)


def test_an_own_test_step_gives_its_numbers() -> None:
    fault = Fault(at_calls={1})
    plain, guarded = own.vae(OPTIMIZERS["adam"], random=False), own.vae(OPTIMIZERS["adam"], fault, random=False)
    fault.calls = 0
    fitroom.guard(guarded)
    same(
        plain.evaluate(own.ROWS, batch_size=30, verbose=0, return_dict=True),
        guarded.evaluate(own.ROWS, batch_size=30, verbose=0, return_dict=True),
    )
    assert fault.strikes == 1


PILE = """
import keras, numpy as np, fitroom
from fitroom.training.guarding import events
model = fitroom.guard(keras.Sequential([keras.Input((64,)), keras.layers.Dense(4096)]))
outputs = model.predict(np.ones((4096, 64), np.float32), batch_size=512, verbose=0)
print(outputs.shape, len(events(model)))
"""


def test_outputs_do_not_pile_up_on_the_device(python: Run) -> None:
    """Outputs of eight batches, of 8 MiB each, would not fit into 48 MiB, let alone put together."""
    done = python("-c", PILE, env={**pocket.environment("48MiB"), "FITROOM_CACHE": "off"})
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split("\n")[0] == "(4096, 4096) 0"


@pytest.mark.chaos
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", MODELS)
def test_thirty_real_budgets(name: str, python: Run, tmp_path: Path) -> None:
    def run(turn: int, mib: int) -> tuple[list[np.ndarray], int, int]:
        path = tmp_path / f"{turn}.npz"
        environment = {**pocket.environment(f"{mib}MiB"), "FITROOM_CACHE": "off"}
        # Every other run is not looked at before it begins, and runs out.
        arguments = [name, str(path), *(["plain"] if turn % 2 else [])]
        done = python(str(ROOT / "tests" / "budget_child.py"), *arguments, env=environment)
        assert done.returncode == 0, (mib, done.stderr[-2000:])
        with np.load(path) as found:
            leaves = [found[key] for key in sorted(found.files) if key.startswith("arr")]
            return leaves, int(found["ooms"]), int(found["peak"])

    expected, _, peak = run(0, 4000)
    budgets = [int(peak / MIB * (0.55 + 0.65 * turn / 29)) for turn in range(30)]
    with ThreadPoolExecutor(4) as pool:  # they mostly wait: ten seconds for each error
        results = list(pool.map(run, range(1, 31), budgets))
    for got, _, _ in results:
        for one, other in zip(expected, got, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)
    # How many depends on how much the machine does at once.
    assert sum(ooms > 0 for _, ooms, _ in results[::2]) >= 3
    assert sum(ooms > 0 for _, ooms, _ in results[1::2]) <= 1
