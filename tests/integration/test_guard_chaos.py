"""The long run: a thousand faults anywhere in the step, and real budgets: `make chaos`."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import fitroom
from fitroom.devices import pocket
from fitroom.steps import graph_seams, probe
from fitroom.training.guarding import events
from fitroom.units import MIB
from tests import own_cases as own
from tests.faults import Fault
from tests.guard_cases import BATCH, LABELS, MODELS, OPTIMIZERS, make
from tests.integration.test_guard_faults import watch_rollbacks
from tests.integration.test_own_steps import run as run_function
from tests.integration.test_own_steps import watch as watch_own
from tests.integration.test_own_steps import written

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]


def now_and_then(seed: str, chance: float = 0.2, apart: int = 25) -> Callable[[int], bool]:
    """Strikes at random, but leaves the step time to come through."""
    generator, last = random.Random(seed), 0

    def strikes(call: int) -> bool:
        nonlocal last
        struck = call - last > apart and generator.random() < chance
        last = call if struck else last
        return struck

    return strikes


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("where", ["forward", "gradient", "update"])
def test_faults_inside_the_graph(name: str, optimizer: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Fault(at_calls=now_and_then(f"{name} {optimizer} {where}"))
    model = fitroom.guard(make(name, optimizer, fault, where), allow=("micro_batch",))
    left = watch_rollbacks(model, monkeypatch)
    epochs = 0
    while fault.strikes < 45:
        model.fit(MODELS[name][1], LABELS, batch_size=BATCH, epochs=5, verbose=0)
        epochs += 5
    assert [one for one in left if one] == []
    assert int(model.optimizer.iterations) == 3 * epochs


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_faults_between_compiled_programs(
    name: str, optimizer: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under XLA no fault can be placed inside: it strikes before a program runs, or when it has run."""
    call, strikes, struck = graph_seams.call_flat, now_and_then(f"{name} {optimizer} {when}"), 0
    calls = 0

    def faulty(function: Any, tensors: list[Any]) -> Any:
        nonlocal calls, struck
        # Only the gradients' program: an update that has run is done, and a reading changes nothing.
        is_gradients = b"_step" in function.name
        calls += is_gradients
        strike = is_gradients and strikes(calls)
        result = None if strike and when == "before" else call(function, tensors)
        if strike:
            struck += 1
            raise tf.errors.ResourceExhaustedError(None, None, "Out of memory while trying to allocate (injected)")
        return result

    monkeypatch.setattr(graph_seams, "call_flat", faulty)
    model = fitroom.guard(make(name, optimizer, jit_compile=True), allow=("micro_batch",))
    left = watch_rollbacks(model, monkeypatch)
    epochs = 0
    while struck < 10:
        model.fit(MODELS[name][1], LABELS, batch_size=BATCH, epochs=5, verbose=0)
        epochs += 5
    assert [one for one in left if one] == []
    assert int(model.optimizer.iterations) == 3 * epochs


def probing_unharmed(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults are for the training, not for the trial on a few samples before it is sliced."""
    plain = probe.own_step

    def own_step(*args: Any) -> Any:
        fault.armed = False
        try:
            return plain(*args)
        finally:
            fault.armed = True

    monkeypatch.setattr(probe, "own_step", own_step)


@pytest.mark.parametrize("name", ["vae", "gan"])
@pytest.mark.parametrize("where", ["forward", "gradient", "update"])
@pytest.mark.parametrize("options", [{}, {"run_eagerly": True}], ids=["graph", "eager"])
def test_faults_in_own_train_steps(
    name: str, where: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A batch of the GAN in slices of one passes the fault 240 times, and has to come through now and then.
    fault = Fault(at_calls=now_and_then(f"{name} {where}", apart=60 if name == "vae" or where == "update" else 400))
    probing_unharmed(fault, monkeypatch)
    model = fitroom.guard({"vae": own.vae, "gan": own.gan}[name](OPTIMIZERS["adam"], fault, where, **options))
    left = watch_own(model, monkeypatch)
    epochs = 0
    while fault.strikes < 10:
        model.fit(own.ROWS, batch_size=16, epochs=5, verbose=0)
        epochs += 5
    assert [one for one in left if one] == []
    optimizer = model.optimizer if name == "vae" else model.g_optimizer
    assert int(optimizer.iterations) == 3 * epochs
    if name == "gan":
        assert int(model.d_optimizer.iterations) == 6 * epochs


@pytest.mark.parametrize("compiled", [None, False], ids=["eager", "graph"])
def test_faults_in_a_function_by_hand(compiled: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Fault(at_calls=now_and_then("function", apart=40))
    probing_unharmed(fault, monkeypatch)
    model, optimizer, function = written(compiled, fault, allow=())
    model.optimizer = optimizer
    left = watch_own(model, monkeypatch)
    steps = 0
    while fault.strikes < 10:
        run_function(function, 30)
        steps += 30
    assert [one for one in left if one] == []
    assert int(optimizer.iterations) == steps


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("share", [0.6, 0.7, 0.85])
def test_real_budgets(name: str, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    repeats = 16384 // len(LABELS)
    x, y = np.concatenate([MODELS[name][1]] * repeats), np.concatenate([LABELS] * repeats)
    plain = make(name, "adam")
    before = pocket.use().current
    pocket.reset_peak()
    plain.train_on_batch(x, y)
    need = pocket.use().peak - before
    model = fitroom.guard(make(name, "adam"), allow=("micro_batch",), plan="plain")  # nothing is planned: it runs out
    model.train_on_batch(x[:4], y[:4])  # makes the metrics' variables
    left = watch_rollbacks(model, monkeypatch)
    with pocket.ballast(int(need * share) // MIB * MIB):
        limit = pocket.use().current + int(need * share)
        monkeypatch.setattr(pocket, "limit", lambda: limit)
        for _ in range(3):
            model.train_on_batch(x, y)
    assert left
    assert [one for one in left if one] == []
    assert int(model.optimizer.iterations) == 4
    assert len([event for event in events(model) if event.kind == "oom"]) <= 2
