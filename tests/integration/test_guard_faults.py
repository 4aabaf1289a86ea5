"""G1 and G2: a failed attempt leaves no trace, and every batch makes exactly one update."""

from __future__ import annotations

import functools
import random
import signal
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

import fitroom
from fitroom import errors
from fitroom.devices import pocket
from fitroom.steps import graph_seams
from fitroom.steps.state import State
from fitroom.steps.update import Keeper, Update
from fitroom.training.guarded_step import GuardedStep
from fitroom.training.guarding import events
from tests import faults
from tests.faults import Fault
from tests.guard_cases import BATCH, LABELS, MODELS, OPTIMIZERS, changed, make, state

PLACES = ["forward", "gradient", "update"]


def watch_rollbacks(model: Any, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Note, for each failed attempt, what it left changed."""
    found: list[list[str]] = []
    attempt, next_rung = GuardedStep._attempt, GuardedStep._next_rung
    before: dict[str, np.ndarray] = {}

    def noted_attempt(self: Any, *args: Any) -> Any:
        before.clear()
        before.update({name: value.copy() for name, value in state(model).items()})
        return attempt(self, *args)

    def noted_rung(self: Any, *args: Any) -> None:
        found.append(changed(before, state(model)))
        next_rung(self, *args)

    monkeypatch.setattr(GuardedStep, "_attempt", noted_attempt)
    monkeypatch.setattr(GuardedStep, "_next_rung", noted_rung)
    return found


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("where", PLACES)
def test_faults_leave_no_trace_and_lose_no_update(
    name: str, optimizer: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN faults that strike now and then
    fault = Fault(at_calls={2, 5, 30, 70})
    model = fitroom.guard(make(name, optimizer, fault, where), allow=("micro_batch",))
    left = watch_rollbacks(model, monkeypatch)
    # WHEN it trains
    model.fit(MODELS[name][1], LABELS, batch_size=BATCH, epochs=4, verbose=0)
    # THEN every failed attempt left everything as it was, and every batch made its update
    assert fault.strikes >= 2
    assert [one for one in left if one] == []
    assert int(model.optimizer.iterations) == 4 * 3
    assert len([event for event in events(model) if event.kind == "oom"]) == fault.strikes


@pytest.mark.parametrize("when", ["before", "after"])
def test_xlas_one_program_leaves_no_trace_where_it_fails(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a small model whose gradients and update XLA compiles as one program, which fails in its second batch
    call, ran = graph_seams.call_flat, 0

    def faulty(function: Any, tensors: list[Any]) -> Any:
        nonlocal ran
        ran += b"_fused_step" in function.name
        strikes = b"_fused_step" in function.name and ran == 2
        result = None if strikes and when == "before" else call(function, tensors)
        if strikes:
            raise tf.errors.ResourceExhaustedError(None, None, "Out of memory while trying to allocate (injected)")
        return result

    monkeypatch.setattr(graph_seams, "call_flat", faulty)
    model = fitroom.guard(make("cnn_batch_norm", "adam", jit_compile=True), allow=("micro_batch",))
    left = watch_rollbacks(model, monkeypatch)
    # WHEN it trains
    model.fit(MODELS["cnn_batch_norm"][1], LABELS, batch_size=BATCH, epochs=2, verbose=0)
    # THEN nothing of the failed attempt is left, and every batch made its update
    assert ran == 2
    assert left == [[]]
    assert int(model.optimizer.iterations) == 2 * 3


@pytest.mark.parametrize("where", PLACES)
def test_a_step_that_never_fits_leaves_no_trace(where: str) -> None:
    fault = Fault(at_calls=lambda call: True)
    fault.armed = False
    model = fitroom.guard(make("cnn_batch_norm", "adam", fault, where))
    model.train_on_batch(MODELS["cnn_batch_norm"][1][:8], LABELS[:8])
    model.reset_metrics()
    before = {name: value.copy() for name, value in state(model).items()}
    fault.armed = True
    with pytest.raises(fitroom.DoesNotFit) as caught:
        model.train_on_batch(MODELS["cnn_batch_norm"][1][:8], LABELS[:8])
    assert isinstance(caught.value, tf.errors.ResourceExhaustedError)
    assert changed(before, state(model)) == []
    if where != "update":
        assert "BatchNormalization" in str(caught.value)
        assert "allow=('micro_batch',)" in str(caught.value)
    fault.armed = False
    model.train_on_batch(MODELS["cnn_batch_norm"][1][:8], LABELS[:8])
    assert int(model.optimizer.iterations) == 2


@pytest.mark.parametrize("part", ["seed_generator", "moving_", "total", "iteration", "kernel", "nothing"])
def test_without_one_part_of_the_rollback_a_trace_is_seen(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above can fail: with any one kind of variable left out of the rollback, they would."""
    write = State.write

    def forgetful(self: State, values: list[Any]) -> None:
        kept = [(v, value) for v, value in zip(self.variables, values, strict=True) if part not in v.name]
        partial = State([v for v, _ in kept])
        write(partial, [value for _, value in kept])

    monkeypatch.setattr(State, "write", forgetful)
    where = "update" if part in ("iteration", "kernel") else "gradient"
    fault = Fault(at_calls=lambda call: True)
    fault.armed = False
    optimizer = {"iteration": "clipped", "kernel": "clipped_each"}.get(part, "adam")
    model = make("cnn_batch_norm", optimizer, fault, where)
    if where == "update":  # one unit per variable: some are through when the fault strikes
        monkeypatch.setattr("fitroom.steps.update.LARGE", 1)
    fitroom.guard(model)
    x = MODELS["cnn_batch_norm"][1][:8]
    model.train_on_batch(x, LABELS[:8])
    model.reset_metrics()
    before = {name: value.copy() for name, value in state(model).items()}
    fault.armed = True
    with pytest.raises(fitroom.DoesNotFit):
        model.train_on_batch(x, LABELS[:8])
    left = changed(before, state(model))
    if part == "nothing":
        assert left == []
    else:
        assert left, f"leaving out {part} changes nothing: is it still rolled back?"
        assert all(part in name or part == "iteration" for name in left)


def test_what_was_kept_on_the_host_is_put_back_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fitroom.steps.update.KEEP_ON_DEVICE", 0)
    variable = tf.Variable([1.0, 2.0])
    keeper = Keeper()
    keeper.keep(State([variable]))
    variable.assign_add([5.0, 5.0])
    keeper.put_back()
    np.testing.assert_array_equal(variable.numpy(), [1.0, 2.0])


def one_that_fails_for_good(optimizer: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Fault]:
    """A model whose variables all count as large; once the fault is armed, one in the middle cannot be updated."""
    monkeypatch.setattr("fitroom.steps.update.LARGE", 1)
    monkeypatch.setattr("fitroom.steps.update.KEEP_ON_DEVICE", 0)
    fault = Fault(at_calls=lambda call: True)
    fault.armed = False
    model = fitroom.guard(make("cnn_layer_norm", optimizer, fault, "update"))
    model.train_on_batch(MODELS["cnn_layer_norm"][1][:8], LABELS[:8])
    model.reset_metrics()
    fault.armed = True
    return model, fault


def test_large_variables_are_put_back_bit_for_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = one_that_fails_for_good("clipped_each", monkeypatch)
    before = {name: value.copy() for name, value in state(model).items()}
    with pytest.raises(fitroom.DoesNotFit, match="update does not fit"):
        model.train_on_batch(MODELS["cnn_layer_norm"][1][:8], LABELS[:8])
    assert changed(before, state(model)) == []


def test_an_update_that_has_begun_and_cannot_end_is_never_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory cannot do this: what is left of an update needs less than what has been done. Other things might."""
    model, fault = one_that_fails_for_good("adam", monkeypatch)
    with pytest.raises(errors.HalfUpdated, match="last checkpoint"):
        model.train_on_batch(MODELS["cnn_layer_norm"][1][:8], LABELS[:8])
    assert fault.strikes == 4
    assert [event.kind for event in events(model)] == []
    # WHEN it goes on from a checkpoint, as it was told, THEN the update that was given up has no part in the next one
    fault.armed = False
    other = make("cnn_layer_norm", "adam")
    for mine, its in zip(model.variables, other.variables, strict=True):
        mine.assign(its)
    for mine, its in zip(model.optimizer.variables, other.optimizer.variables, strict=True):
        mine.assign(its)
    for one in (model, other):
        one.train_on_batch(MODELS["cnn_layer_norm"][1][:8], LABELS[:8])
    assert changed(state(other), state(model)) == []


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_rows_that_were_done_are_not_done_again(
    optimizer: str, is_sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN an update of 16 parts, of which some fail, once or several times, and a small variable after it
    monkeypatch.setattr("fitroom.steps.update.LARGE", 1024)
    monkeypatch.setattr("fitroom.steps.update_units.ROWS", 256)
    monkeypatch.setattr("fitroom.steps.update.KEEP_ON_DEVICE", 1024)
    values = [np.random.default_rng(0).normal(size=shape).astype(np.float32) for shape in ((256, 4), (5,))]
    gradients = [tf.constant(value[::-1] * 0.5) for value in values]
    if is_sparse:
        gradients[0] = tf.IndexedSlices(
            gradients[0][:90], tf.constant([*range(40), *range(50)]) * 5, tf.constant((256, 4))
        )
    found = []
    fault = Fault(at_calls={3, 4, 6, 22, 36})
    for is_ours in (True, False):
        variables = [keras.Variable(value) for value in values]
        chosen = OPTIMIZERS[optimizer]()
        chosen.build(variables)
        plain = tf.function(functools.partial(chosen.apply, gradients, variables), autograph=False)
        if is_ours:
            faults.faulty_update(chosen, 0, fault)
            update = Update(chosen, variables, tf.distribute.get_strategy())
        # WHEN it is made twice, by us and by Keras
        for _ in range(2):
            update(list(gradients)) if is_ours else plain()
        found.append([one.numpy() for one in (*variables, *chosen.variables)])
    # THEN nothing was done twice or left out
    assert fault.strikes == 5
    assert fault.calls == 2 * 16 + 5
    assert len(update.take_survived()) == 5
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_real_update_that_has_no_room_changes_nothing_and_goes_in_smaller_parts() -> None:
    # GIVEN a large variable, many that are not, and less memory than the update would like
    generator = np.random.default_rng(0)
    values = [generator.normal(size=side).astype(np.float32) for side in [(1024, 1024), *[(256, 256)] * 60]]
    variables = [keras.Variable(value) for value in values]
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(variables)
    update = Update(optimizer, variables, tf.distribute.get_strategy())
    update([tf.constant(value) for value in values])  # with memory enough
    before = [one.numpy() for one in (*variables, *optimizer.variables)]
    with pocket.ballast("21MiB"):  # of which the gradients take 19
        # WHEN it is made, THEN it fails without a trace
        with pytest.raises(tf.errors.ResourceExhaustedError):
            update([tf.constant(value) for value in values])
        for one, value in zip((*variables, *optimizer.variables), before, strict=True):
            np.testing.assert_array_equal(one.numpy(), value)
    # WHEN it takes less, THEN it goes through where it was short before
    assert update.tighten()
    with pocket.ballast("26MiB"):
        update([tf.constant(value) for value in values])
    theirs = [keras.Variable(value) for value in values]
    plain = keras.optimizers.Adam(0.01)
    plain.build(theirs)
    step = tf.function(functools.partial(plain.apply, values, theirs), autograph=False)
    step(), step()
    for one, other in zip((*variables, *optimizer.variables), (*theirs, *plain.variables), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize(("shape", "unit"), [((64, 65_536), "Rows"), ((1, 1, 2048, 4096), "Large")])
def test_variables_of_few_rows_are_updated_as_a_whole(shape: tuple[int, ...], unit: str) -> None:
    variable = keras.Variable(np.zeros(shape, np.float32))
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.build([variable])
    update = Update(optimizer, [variable], tf.distribute.get_strategy())
    update([tf.ones(shape)])
    assert update._units is not None
    assert type(update._units[0]).__name__ == unit
    np.testing.assert_allclose(variable.numpy(), -0.1)
    assert int(optimizer.iterations) == 1


@pytest.mark.parametrize("name", ["cnn_layer_norm", "lstm"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("calls", [{2, 4}, {1, 2, 3}])
def test_an_update_that_runs_out_goes_on_in_rows_with_the_same_result(
    name: str, optimizer: str, calls: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN variables that count as large, and faults at some of the rows of one of them
    monkeypatch.setattr("fitroom.steps.update.LARGE", 1)
    monkeypatch.setattr("fitroom.steps.update_units.ROWS", 64)
    monkeypatch.setattr("fitroom.steps.update_units.FEWER_ROWS", 32)
    monkeypatch.setattr("fitroom.steps.update.KEEP_ON_DEVICE", 0)
    fault = Fault(at_calls=calls)
    model = fitroom.guard(make(name, optimizer, fault, "update"))
    left = watch_rollbacks(model, monkeypatch)
    plain = make(name, optimizer)
    # WHEN both train
    for one in (model, plain):
        one.fit(MODELS[name][1], LABELS, batch_size=BATCH, epochs=2, verbose=0, shuffle=False)
    # THEN each is told of, and the guarded one ends where plain training does, to the bit
    assert fault.strikes == len(calls)
    assert not any(left)
    assert [event.kind for event in events(model)].count("oom") == len(calls)
    assert changed(state(plain), state(model)) == []


def test_twenty_epochs_of_faults_lose_and_double_no_batch() -> None:
    """Each sample moves a weight of its own by exactly 1 when it is trained on: the weights count the visits."""
    samples, chance = 50, random.Random(1)
    last = 0

    def now_and_then(call: int) -> bool:
        nonlocal last
        strikes = call - last > 20 and chance.random() < 0.1
        last = call if strikes else last
        return strikes

    fault = Fault(at_calls=now_and_then)
    inputs = keras.Input((1,), dtype="int32")
    counts = kl.Embedding(samples, 1, embeddings_initializer="zeros")
    outputs = faults.layer(fault, "gradient")(kl.Flatten()(counts(inputs)))
    model = keras.Model(inputs, outputs)
    loss = keras.losses.MeanAbsoluteError(reduction="sum")
    model.compile(keras.optimizers.SGD(1.0), loss)
    fitroom.guard(model)
    numbers = np.arange(samples, dtype=np.int32)[:, None]
    far = np.full((samples, 1), 1e6, np.float32)  # the loss is |1e6 - w|: its gradient is -1 all the way
    model.fit(numbers, far, batch_size=8, epochs=20, verbose=0)
    assert fault.strikes >= 10
    np.testing.assert_array_equal(counts.get_weights()[0].ravel(), np.full(samples, 20.0))
    assert int(model.optimizer.iterations) == 20 * 7


def test_a_single_sample_that_does_not_fit_says_so() -> None:
    fault = Fault(at_calls=lambda call: True)
    model = fitroom.guard(make("cnn_layer_norm", "adam", fault, "forward"))
    with pytest.raises(fitroom.DoesNotFit, match="A single sample does not fit"):
        model.fit(MODELS["cnn_layer_norm"][1], LABELS, batch_size=8, verbose=0)


@pytest.mark.parametrize("error", [MemoryError("in a callback"), ValueError("mine"), KeyboardInterrupt()])
def test_errors_of_callbacks_pass_through(error: BaseException) -> None:
    class Raises(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            raise error

    model = fitroom.guard(make("lstm", "adam"))
    with pytest.raises(type(error)):
        model.fit(MODELS["lstm"][1], LABELS, batch_size=8, verbose=0, callbacks=[Raises()])
    assert events(model) == ()


def test_running_out_in_the_data_passes_through() -> None:
    def failing() -> Any:
        yield MODELS["lstm"][1][:8], LABELS[:8]
        raise MemoryError("in the data")

    model = fitroom.guard(make("lstm", "adam"))
    with pytest.raises(Exception, match="in the data"):
        model.fit(failing(), steps_per_epoch=3, verbose=0, shuffle=False)
    assert events(model) == ()


def test_an_interrupt_in_the_step_is_not_swallowed_and_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitroom.guard(make("cnn_batch_norm", "adam"))
    x = MODELS["cnn_batch_norm"][1][:8]
    model.train_on_batch(x, LABELS[:8])
    model.reset_metrics()
    before = {name: value.copy() for name, value in state(model).items()}

    def interrupted(self: Any, gradients: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Update, "__call__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.train_on_batch(x, LABELS[:8])
    assert changed(before, state(model)) == []


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_while_the_update_is_made_waits_for_its_end(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, plain = fitroom.guard(make("cnn_batch_norm", "adam")), make("cnn_batch_norm", "adam")
    update = Update.__call__

    def interrupted(self: Any, gradients: Any) -> None:
        if when == "after":
            update(self, gradients)
        signal.raise_signal(signal.SIGINT)
        if when == "before":
            update(self, gradients)

    monkeypatch.setattr(Update, "__call__", interrupted)
    x = MODELS["cnn_batch_norm"][1][:8]
    with pytest.raises(KeyboardInterrupt):
        model.train_on_batch(x, LABELS[:8])
    plain.train_on_batch(x, LABELS[:8])
    assert changed(state(plain), state(model)) == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


class Noise(kl.Layer):
    """Random numbers from an operation that keeps its state inside its kernel."""

    def call(self, inputs: Any) -> Any:
        return inputs + tf.random.normal(tf.shape(inputs), stddev=0.01)


def test_random_numbers_that_cannot_be_put_back_are_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    fault = Fault(at_calls={2})
    model = keras.Sequential([kl.Input((4,)), Noise(), kl.Dense(3), faults.layer(fault, "forward"), kl.Dense(2)])
    model.compile("sgd", "mse")
    fitroom.guard(model)
    model.fit(np.zeros((8, 4), "float32"), np.zeros((8, 2), "float32"), batch_size=4, epochs=3, verbose=0)
    assert fault.strikes == 1
    assert [event.data["redrawn"] for event in events(model) if event.kind == "oom"] == ["RandomStandardNormal"]
    assert "drew other numbers (RandomStandardNormal)" in capsys.readouterr().err
