"""A guarded training on several replicas: the same updates, nothing left of what failed, and never a hang."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import fitroom
from fitroom.devices import pocket
from fitroom.steps import graph_seams, slicing
from fitroom.training.guarding import events
from fitroom.units import MIB
from tests import guard_cases as cases
from tests import own_cases as own
from tests.conftest import Run
from tests.faults import Fault
from tests.replica_cases import REPLICAS, apart, blocks, everywhere, make, mirrored, updates, watch
from tests.replica_cases import own as make_own

pytestmark = pytest.mark.timeout(240)  # replicas that wait for each other for ever would hang


def long(*values: Any) -> Any:
    """A case that takes its time, and is like another one: for `make chaos`."""
    return pytest.param(*values, marks=pytest.mark.chaos)


def trained(model: Any, name: str, plan: str | None = None, epochs: int = 2, **options: Any) -> Any:
    if plan is not None:
        fitroom.guard(model, plan=plan, allow=options.pop("allow", ()))
    model.fit(cases.MODELS[name][1], cases.LABELS, batch_size=cases.BATCH, epochs=epochs, verbose=0, **options)
    return model


# --- the same result -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cnn_layer_norm", "cnn_batch_norm", *map(long, ["transformer", "lstm"])])
def test_in_one_piece_every_bit_on_every_replica_is_plain_fits(name: str) -> None:
    plain, guarded = trained(make(name), name), trained(make(name), name, "plain")
    assert cases.changed(everywhere(plain), everywhere(guarded)) == []
    assert guarded.history.history == plain.history.history


@pytest.mark.parametrize("name", ["cnn_layer_norm", *map(long, ["transformer", "lstm"])])
def test_slices_make_the_update_of_the_whole_batch(name: str) -> None:
    plain = trained(make(name, "momentum", still=True), name, epochs=7)  # 21 steps
    sliced = trained(make(name, "momentum", still=True), name, "micro_batch=3", epochs=7)
    assert apart(plain, sliced) < 1e-5
    for key, values in plain.history.history.items():
        np.testing.assert_allclose(sliced.history.history[key], values, atol=1e-5)


def test_shares_of_different_sizes() -> None:
    # GIVEN 43 samples in batches of 16: six and five are left for the last batch
    x, y = cases.IMAGES[:43], cases.LABELS[:43]
    both = [make("cnn_layer_norm", "momentum", still=True) for _ in range(2)]
    fitroom.guard(both[1], plan="micro_batch=5")
    for model in both:
        model.fit(x, y, batch_size=16, epochs=4, verbose=0, class_weight={0: 1.0, 1: 2.0, 2: 0.5, 3: 1.0, 4: 3.0})
    assert apart(*both) < 1e-5
    np.testing.assert_allclose(both[0].history.history["loss"], both[1].history.history["loss"], rtol=1e-5)


def test_a_batch_counts_as_having_the_samples_of_its_smallest_share() -> None:
    for rows in ((6, 5), (5, 6)):
        shares = [tf.zeros((count, 3)) for count in rows]
        assert slicing.batch_size((graph_seams.per_replica(shares), None)) == 5


def test_two_replicas_make_the_update_of_one_device() -> None:
    alone = trained(cases.make("cnn_layer_norm", "momentum"), "cnn_layer_norm", epochs=0)
    shared = make("cnn_layer_norm", "momentum", still=True)
    for layer in alone.layers:
        layer.rate = 0.0
    fitroom.guard(shared, plan="micro_batch=2")
    for model in (alone, shared):
        model.fit(cases.IMAGES[:32], cases.LABELS[:32], batch_size=16, epochs=5, shuffle=False, verbose=0)
    assert apart(alone, shared) < 1e-5


@pytest.mark.parametrize("options", [{"steps_per_execution": 2}, long({"run_eagerly": True})], ids=["several", "eager"])
def test_however_it_runs(options: dict[str, Any]) -> None:
    # Several steps at once are more than plain Keras can on replicas: its steps one by one are what they must equal.
    models = [make("cnn_layer_norm", "adam", still=True, **one) for one in ({}, options, options)]
    fitroom.guard(models[1], plan="plain")
    fitroom.guard(models[2], plan="micro_batch=3")
    for model in models:
        model.fit(cases.IMAGES[:32], cases.LABELS[:32], batch_size=16, epochs=2, verbose=0)
    assert apart(models[0], models[1]) < 1e-6
    assert apart(models[0], models[2]) < 1e-4


def test_xla_which_plain_keras_cannot_use_there_is_switched_off_and_told_of() -> None:
    plain = trained(make("cnn_layer_norm"), "cnn_layer_norm")
    guarded = trained(make("cnn_layer_norm", jit_compile=True), "cnn_layer_norm", "plain")
    assert cases.changed(everywhere(plain), everywhere(guarded)) == []
    assert [event.data["what"] for event in events(guarded) if event.kind == "turned"] == ["xla"]
    assert fitroom.unguard(guarded).jit_compile


def test_a_strategy_of_one_device() -> None:
    both = []
    for plan in (None, "micro_batch=3"):
        with tf.distribute.OneDeviceStrategy("CPU:1").scope():
            model = cases.make("transformer", "momentum")
        for layer in model._flatten_layers():
            layer._dropout = 0.0
        both.append(trained(model, "transformer", plan))
    assert apart(*both) < 1e-5


@pytest.mark.parametrize("synchronized", [long(False), True])
def test_recomputation_keeps_every_bit_of_batch_normalisation(synchronized: bool) -> None:
    models = []
    for plan in (None, "recompute"):
        model = blocks(synchronized=synchronized)
        if plan is not None:
            fitroom.guard(model, plan=plan)
        model.fit(cases.IMAGES, cases.LABELS, batch_size=16, epochs=2, verbose=0)
        models.append(model)
    assert cases.changed(*map(everywhere, models)) == []
    assert [event.data["remedy"] for event in events(models[1]) if event.kind == "rung"] == ["recompute"]


@pytest.mark.parametrize("synchronized", [False, True])
def test_batch_normalisation_is_not_sliced_unasked(synchronized: bool) -> None:
    model = fitroom.guard(blocks(synchronized=synchronized), plan="micro_batch=2")
    before = model.get_weights()
    with pytest.raises(fitroom.DoesNotFit, match="slicing it would change the math"):
        model.fit(cases.IMAGES, cases.LABELS, batch_size=16, verbose=0)
    assert all(np.array_equal(one, other) for one, other in zip(before, model.get_weights(), strict=True))


def test_evaluation_and_prediction_in_slices() -> None:
    model = make("cnn_layer_norm")
    results, outputs = [], []
    for plan in (None, "eval_batch=6"):
        if plan is not None:
            fitroom.guard(model, plan=plan)
        results.append(model.evaluate(cases.IMAGES, cases.LABELS, batch_size=16, verbose=0))
        outputs.append(model.predict(cases.IMAGES, batch_size=16, verbose=0))
    np.testing.assert_allclose(*results, rtol=1e-5)
    np.testing.assert_allclose(*outputs, atol=1e-5)
    rungs = [event for event in events(model) if event.kind == "rung"]
    assert {event.data["size"] for event in rungs} == {6 // REPLICAS}, "six on all replicas together"


# --- steps of one's own ----------------------------------------------------------------------------------------------


class _Tells(keras.callbacks.Callback):  # type: ignore[misc] # Keras has no types
    """Keeps what Keras shows after each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[list[float]] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.told.append(list(logs.values()))


@pytest.mark.parametrize("name", [*map(long, ["vae", "gan"]), "momentum"])
def test_train_steps_of_ones_own(name: str) -> None:
    found, told = [], []
    for plan in (None, "plain", "micro_batch=3"):
        model = make_own(name)
        if plan is not None:
            fitroom.guard(model, plan=plan)
        # 43 samples: six and five are left for the last batch
        data = tf.data.Dataset.from_tensor_slices((own.ROWS[:43], own.CLASSES[:43])).batch(16)
        tells = _Tells()
        model.fit(data, epochs=2, verbose=0, shuffle=False, callbacks=[tells])
        found.append(model)
        told.append(tells.told)
    plain, whole, sliced = found
    np.testing.assert_allclose(told[1], told[0], rtol=1e-6)
    np.testing.assert_allclose(told[2], told[0], rtol=1e-4)
    assert cases.changed(everywhere(plain), everywhere(whole)) == []
    assert apart(plain, sliced) < 1e-5
    for key, values in plain.history.history.items():
        np.testing.assert_allclose(sliced.history.history[key], values, rtol=1e-4)


@pytest.mark.parametrize("reduced", [True, long(False)], ids=["reduced", "per replica"])
def test_a_function_that_runs_on_every_replica(reduced: bool) -> None:
    strategy = mirrored()

    def run(plan: str | None) -> tuple[Any, list[list[float]]]:
        keras.utils.set_random_seed(1)
        with strategy.scope():
            model = keras.Sequential([keras.Input((12,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(3)])
            optimizer = keras.optimizers.Adam(0.01)
            optimizer.build(model.trainable_variables)
        losses_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

        def on_replica(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(losses_of(y, model(x, training=True))) / 16.0
            weights = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            return loss

        @tf.function
        def train(x: Any, y: Any) -> Any:
            found = strategy.run(on_replica, args=(x, y))
            return strategy.reduce(tf.distribute.ReduceOp.SUM, found, axis=None) if reduced else found

        step = train if plan is None else fitroom.step(train, plan=plan)
        data = tf.data.Dataset.from_tensor_slices((own.ROWS[:43], own.CLASSES[:43])).batch(16)
        losses = []
        for _ in range(2):
            for x, y in strategy.experimental_distribute_dataset(data):
                losses.append([float(one) for one in strategy.experimental_local_results(step(x, y))])
        return model, losses

    (plain, plain_losses), (whole, losses), (sliced, sliced_losses) = run(None), run("plain"), run("micro_batch=3")
    assert cases.changed(everywhere(plain), everywhere(whole)) == []
    assert losses == plain_losses
    assert apart(plain, sliced) < 1e-5
    np.testing.assert_allclose(sliced_losses, plain_losses, rtol=1e-5)


# --- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "optimizer", "plan", "calls"),
    [
        ("lstm", "adam", "plain", ()),
        ("cnn_batch_norm", "momentum", "plain", {3, 4, 7}),
        long("lstm", "momentum", "plain", {2, 11}),
        long("transformer", "adam", "plain", {3, 5}),
        long("cnn_layer_norm", "adam", "micro_batch=3", {3, 4}),
    ],
)
def test_many_weights_are_updated_replica_by_replica_to_the_same_bits(
    name: str, optimizer: str, plan: str, calls: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN variables that count as many and large, and faults in the update of one of them
    for setting, value in (("update.LARGE", 100), ("update.KEEP_ON_DEVICE", 0), ("update_units.ROWS", 256)):
        monkeypatch.setattr(f"fitroom.steps.{setting}", value)
    whole = plan == "plain"
    plain = trained(make(name, optimizer, still=not whole), name)
    fault = Fault(at_calls=calls)
    fault.armed = False
    guarded = fitroom.guard(make(name, optimizer, fault, "update", still=not whole), plan=plan)
    fault.armed = True
    # WHEN it is trained
    trained(guarded, name)
    # THEN it went on each time, and every replica has what plain training has
    assert fault.strikes == len(calls)
    assert [event.kind for event in events(guarded)].count("oom") == len(calls)
    if whole:
        assert cases.changed(everywhere(plain), everywhere(guarded)) == []
    else:
        assert apart(plain, guarded) < 1e-4


@pytest.mark.parametrize(
    ("name", "where", "replica"),
    [
        ("cnn_batch_norm", "update", None),
        ("transformer", "gradient", 0),
        pytest.param("cnn_batch_norm", "forward", 1, marks=pytest.mark.chaos),
        pytest.param("transformer", "forward", None, marks=pytest.mark.chaos),
    ],
)
def test_one_replicas_fault_is_everyones(
    name: str, where: str, replica: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a fault that strikes twice, on one replica or on all
    fault = Fault(at_calls={2, 9}, replica=replica)
    fault.armed = False
    model = fitroom.guard(make(name, "adam", fault, where), plan="plain", allow=("micro_batch",))
    left = watch(model, monkeypatch)
    fault.armed = True
    # WHEN it is trained
    model.fit(cases.MODELS[name][1], cases.LABELS, batch_size=cases.BATCH, epochs=2, verbose=0)
    # THEN no attempt has left anything on any replica, all updates were made, and all replicas have the same weights
    assert fault.strikes
    assert len(left) >= 1
    assert [one for one in left if one] == []
    assert updates(model.optimizer) == 6
    for variable in model.trainable_variables:
        first, *others = (one.numpy() for one in variable.value.values)
        assert all(np.array_equal(first, other) for other in others)


@pytest.mark.parametrize("name", cases.MODELS)
@pytest.mark.parametrize("where", ["forward", "gradient", "update"])
@pytest.mark.chaos
@pytest.mark.timeout(1800)
def test_many_faults_on_replicas(name: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.integration.test_guard_chaos import now_and_then

    struck = 0
    for replica in (None, REPLICAS - 1) if where != "update" else (None,):
        fault = Fault(at_calls=now_and_then(f"{name} {where} {replica}", apart=25 * REPLICAS), replica=replica)
        fault.armed = False
        model = fitroom.guard(make(name, "adam", fault, where), plan="plain", allow=("micro_batch",))
        left = watch(model, monkeypatch)
        fault.armed = True
        epochs = 0
        while fault.strikes < (12 if where != "update" else 24):
            model.fit(cases.MODELS[name][1], cases.LABELS, batch_size=cases.BATCH, epochs=5, verbose=0)
            epochs += 5
        assert [one for one in left if one] == []
        assert updates(model.optimizer) == 3 * epochs
        struck += fault.strikes
        monkeypatch.undo()
    assert struck >= 24


# All replicas share one arena here: a convolution's workspace, which is the same for any batch, and an embedding's
# gradients, which every replica gets from all, are there several times over. What does not fit then is refused.
@pytest.mark.parametrize("name", cases.MODELS)
@pytest.mark.parametrize("share", [0.7, 0.8, 0.88])
@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_real_budgets_on_replicas(name: str, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN what a large batch takes
    size = 16384
    repeats = -(-size // len(cases.LABELS))
    x, y = (np.concatenate([one] * repeats)[:size] for one in (cases.MODELS[name][1], cases.LABELS))
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(size)
    plain, before = make(name), pocket.use().current
    pocket.reset_peak()
    plain.fit(data, shuffle=False, verbose=0)
    need = pocket.use().peak - before
    del plain
    # WHEN there is less, and nothing is planned
    model = fitroom.guard(make(name), allow=("micro_batch",), plan="plain")
    model.fit(x[: 4 * REPLICAS], y[: 4 * REPLICAS], verbose=0)  # makes the metrics' variables
    left = watch(model, monkeypatch)
    refused = False
    with pocket.ballast(int(need * share) // MIB * MIB):
        limit = pocket.use().current + int(need * share)
        monkeypatch.setattr(pocket, "limit", lambda: limit)
        try:
            model.fit(data, epochs=3, shuffle=False, verbose=0)
        except fitroom.DoesNotFit:
            refused = True
    # THEN real errors came, nothing was left of any, and every update was made, or none of those that were refused
    assert left
    assert [one for one in left if one] == []
    if not refused:
        assert updates(model.optimizer) == 4
    assert refused <= (REPLICAS > 2 or name in ("cnn_batch_norm", "lstm"))
    print(f"{len(left)} real errors")


@pytest.mark.chaos
def test_the_same_on_four_replicas(python: Run) -> None:
    """In a process of its own: TensorFlow takes one strategy in each."""
    some = "every_bit_on_every_replica and batch_norm or slices_make and cnn_layer or fault_is and gradient"
    arguments = ["-q", "-p", "no:xdist", "--override-ini", "addopts=", "-k", some, __file__]
    done = python("-m", "pytest", *arguments, env={"REPLICAS": "4"})
    assert "3 passed" in done.stdout, done.stdout[-3000:]


@pytest.mark.chaos
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", cases.MODELS)
@pytest.mark.parametrize(("what", "count"), [("many_faults", 3), ("real_budgets", 3)])
def test_much_on_four_replicas(name: str, what: str, count: int) -> None:
    options = ["-q", "-p", "no:xdist", "--override-ini", "addopts=", "-k", f"{what}_on_replicas and {name}"]
    command = [sys.executable, "-m", "pytest", *options, __file__]
    done = subprocess.run(command, env={**os.environ, "REPLICAS": "4"}, capture_output=True, text=True, check=False)
    assert f"{count} passed" in done.stdout, done.stdout[-3000:]


def test_an_error_that_is_memory_by_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a replica that cannot make a constant: TensorFlow says that it cannot parse it
    model = fitroom.guard(make("transformer", "momentum", still=True), plan="plain")
    left = watch(model, monkeypatch)
    call, calls = graph_seams.call_flat, 0

    def fails_once(function: Any, tensors: list[Any]) -> Any:
        nonlocal calls
        calls += b"_fused_step" in function.name
        result = call(function, tensors)
        if calls == 2 and b"_fused_step" in function.name:
            raise tf.errors.InvalidArgumentError(None, None, "Cannot parse tensor from proto: dtype: DT_FLOAT")
        return result

    monkeypatch.setattr(graph_seams, "call_flat", fails_once)
    # WHEN it is trained
    model.fit(cases.TOKENS, cases.LABELS, batch_size=cases.BATCH, verbose=0)
    # THEN that was taken for what it is, and nothing is left of it
    assert left == [[]]
    assert updates(model.optimizer) == 3
