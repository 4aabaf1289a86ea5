"""Steps that Keras did not write: whole to the bit, sliced within rounding, faults without a trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

import fitroom
from fitroom.training.guarded_step import GuardedStep
from fitroom.training.guarding import events
from tests import own_cases as own
from tests.faults import Fault
from tests.guard_cases import OPTIMIZERS, changed

MAKE: dict[str, Callable[..., Any]] = {"vae": own.vae, "gan": own.gan}


def fit(model: Any, epochs: int = 3) -> dict[str, list[float]]:
    history = model.fit(own.ROWS, own.CLASSES, batch_size=16, epochs=epochs, shuffle=False, verbose=0)
    return dict(history.history)


def furthest(one: Any, other: Any) -> float:
    pairs = zip(own.everything(one).values(), own.everything(other).values(), strict=True)
    return max(float(np.max(np.abs(a - b)) / max(np.max(np.abs(a)), 1e-6)) for a, b in pairs if a.dtype.kind == "f")


@pytest.mark.parametrize("name", [*MAKE, "momentum"])
@pytest.mark.parametrize("options", [{}, {"run_eagerly": True}, {"jit_compile": True}], ids=["graph", "eager", "xla"])
def test_in_one_piece_an_own_step_is_what_it_was(name: str, options: dict[str, Any]) -> None:
    make = {**MAKE, "momentum": own.momentum}[name]
    plain, guarded = make(OPTIMIZERS["adam"], **options), fitroom.guard(make(OPTIMIZERS["adam"], **options))
    assert fit(plain) == fit(guarded)
    assert changed(own.everything(plain), own.everything(guarded)) == []
    assert events(guarded) == ()


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        ("adam", {}),
        ("momentum", {}),
        pytest.param("adam", {"run_eagerly": True}, marks=pytest.mark.chaos),
        pytest.param("adam", {"jit_compile": True}, marks=pytest.mark.chaos),
        pytest.param("momentum", {"run_eagerly": True}, marks=pytest.mark.chaos),
        pytest.param("momentum", {"jit_compile": True}, marks=pytest.mark.chaos),
    ],
    ids=["adam", "momentum", "adam-eager", "adam-xla", "momentum-eager", "momentum-xla"],
)
def test_in_slices_an_own_step_makes_the_same_update(name: str, optimizer: str, options: dict[str, Any]) -> None:
    make = MAKE[name]
    plain = make(OPTIMIZERS[optimizer], random=False, **options)
    sliced = fitroom.guard(make(OPTIMIZERS[optimizer], random=False, **options), plan="micro_batch=3")
    expected, got = fit(plain), fit(sliced)
    assert furthest(plain, sliced) < (1e-4 if optimizer == "adam" else 1e-5)
    assert expected.keys() == got.keys()
    for key, values in expected.items():
        np.testing.assert_allclose(got[key], values, rtol=1e-4)


def test_what_follows_the_update_happens_once() -> None:
    plain, sliced = (
        own.momentum(OPTIMIZERS["adam"]),
        fitroom.guard(own.momentum(OPTIMIZERS["adam"]), plan="micro_batch=3"),
    )
    fit(plain), fit(sliced)
    assert float(sliced.steps) == 9.0
    assert furthest(plain, sliced) < 1e-4


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("where", ["forward", "gradient", "update"])
@pytest.mark.parametrize(
    "options", [{}, pytest.param({"run_eagerly": True}, marks=pytest.mark.chaos)], ids=["graph", "eager"]
)
def test_faults_in_own_steps_leave_no_trace(
    name: str, where: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The trial on a few samples comes after the first fault: in the GAN it passes the faulty layer fifteen times.
    fault = Fault(at_calls={4, 40} if name == "gan" and where != "update" else {4, 9})
    model = fitroom.guard(MAKE[name](OPTIMIZERS["adam"], fault, where, **options))
    left = watch(model, monkeypatch)
    fit(model, epochs=4)
    assert fault.strikes == 2
    assert [one for one in left if one] == []
    assert len(left) == fault.strikes
    if name == "vae":
        assert int(model.optimizer.iterations) == 12
    else:
        assert int(model.d_optimizer.iterations) == 24
        assert int(model.g_optimizer.iterations) == 12


def watch(model: Any, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Note, for each failed attempt, what it left changed."""
    found: list[list[str]] = []
    before: dict[str, np.ndarray] = {}
    attempt, next_rung = GuardedStep._attempt, GuardedStep._next_rung

    def noted_attempt(self: Any, *args: Any) -> Any:
        before.clear()
        before.update(own.everything(model))
        return attempt(self, *args)

    def noted_rung(self: Any, *args: Any) -> None:
        found.append(changed(before, own.everything(model)))
        next_rung(self, *args)

    monkeypatch.setattr(GuardedStep, "_attempt", noted_attempt)
    monkeypatch.setattr(GuardedStep, "_next_rung", noted_rung)
    return found


# --- hand-written functions ----------------------------------------------------------------------------------------


def written(compiled: bool | None, fault: Fault | None = None, **options: Any) -> tuple[Any, Any, Any]:
    """A model, its optimizer and a step by hand: eager (None), compiled, or compiled with XLA."""
    keras.utils.set_random_seed(3)
    layers = own._fault_layers(fault, "gradient")
    model = keras.Sequential([keras.Input((12,)), kl.Dense(8, "relu"), *layers, kl.Dense(3)])
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)
    loss_function = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    accuracy = keras.metrics.SparseCategoricalAccuracy()
    mean = keras.metrics.Mean()

    def train_step(x: Any, y: Any, scale: float = 1.0, *, training: bool = True) -> Any:
        with tf.GradientTape() as tape:
            logits = model(x, training=training)
            loss = loss_function(y, logits) * scale
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        accuracy.update_state(y, logits)
        mean.update_state(loss)
        return {"loss": loss, "logits": logits, "nothing": None}

    function = train_step if compiled is None else tf.function(train_step, jit_compile=compiled)
    model.measured = [accuracy, mean]
    return (
        model,
        optimizer,
        fitroom.step(function, model=model, optimizer=optimizer, **options) if options else function,
    )


def run(function: Any, steps: int = 6) -> list[Any]:
    results = []
    for turn in range(steps):
        start = turn % 3 * 16
        results.append(function(own.ROWS[start : start + 16], own.CLASSES[start : start + 16], training=True))
    return results


@pytest.mark.parametrize("compiled", [None, False, True], ids=["eager", "graph", "xla"])
@pytest.mark.parametrize("plan", ["", "micro_batch=3"], ids=["whole", "sliced"])
def test_a_function_does_what_it_did(compiled: bool | None, plan: str) -> None:
    plain_model, _, plain = written(compiled)
    model, optimizer, guarded = written(compiled, plan=plan or None, allow=())
    expected, got = run(plain), run(guarded)
    assert int(optimizer.iterations) == 6
    tolerance = 1e-4 if plan else 0.0
    for one, other in zip(plain_model.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * float(np.max(np.abs(one))))
    for one, other in zip(expected, got, strict=True):
        assert other["nothing"] is None
        assert other["logits"].shape == one["logits"].shape
        np.testing.assert_allclose(one["logits"], other["logits"], rtol=10 * tolerance, atol=tolerance)
        np.testing.assert_allclose(one["loss"], other["loss"], rtol=tolerance)
    for one, other in zip(plain_model.measured, model.measured, strict=True):
        np.testing.assert_allclose(float(one.result()), float(other.result()), rtol=tolerance)


@pytest.mark.parametrize("compiled", [None, False], ids=["eager", "graph"])
def test_a_function_survives_faults(compiled: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Fault(at_calls={3, 14, 22})
    _, optimizer, guarded = written(compiled, fault, allow=())
    run(guarded, 12)
    assert fault.strikes == 3
    assert int(optimizer.iterations) == 12
    assert [event.kind for event in guarded.events].count("oom") == 3
