"""A training function that loops over a dataset by itself: undone where it fails, or taken apart for replicas."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import fitroom
from fitroom.training import looking_ahead
from tests import faults, own_cases
from tests.replica_cases import mirrored

DATA = tf.data.Dataset.from_tensor_slices((own_cases.ROWS, own_cases.CLASSES)).batch(11)  # four batches


def written(fault: faults.Fault) -> tuple[Any, Any, Any]:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((12,)), faults.layer(fault), keras.layers.Dense(3)])
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)
    loss_function = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def epoch(data: Any) -> None:
        for x, y in data:
            with tf.GradientTape() as tape:
                loss = loss_function(y, model(x, training=True))
            weights = model.trainable_variables
            optimizer.apply(tape.gradient(loss, weights), weights)

    return model, optimizer, fitroom.step(epoch)


def test_a_call_that_runs_out_leaves_none_of_its_steps() -> None:
    # GIVEN a loop in which the third batch does not fit
    model, optimizer, epoch = written(faults.Fault(at_calls={3}))
    before = [*model.get_weights(), *(variable.numpy() for variable in optimizer.variables)]
    # WHEN it is called
    with pytest.raises(fitroom.DoesNotFit, match="Nothing of this call is left"):
        epoch(DATA)
    # THEN the first two batches' updates are undone, too, and the next call trains
    after = [*model.get_weights(), *(variable.numpy() for variable in optimizer.variables)]
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))
    epoch(DATA)
    assert int(optimizer.iterations) == 4


@pytest.fixture
def nothing_is_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if memory were so short that nothing surely fits."""
    monkeypatch.setattr(looking_ahead, "_SURELY", 0.0)


def test_a_function_that_draws_its_batches_is_never_called_twice_for_one() -> None:
    # GIVEN a function that takes a batch from an iterator, and runs out in its second call
    model, optimizer, _ = written(fault := faults.Fault(at_calls={2}))
    loss_function, drawn = keras.losses.SparseCategoricalCrossentropy(from_logits=True), []

    @fitroom.step
    @tf.function
    def train_step(iterator: Any) -> Any:
        x, y = next(iterator)
        with tf.GradientTape() as tape:
            loss = loss_function(y, model(x, training=True))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return x[0, 0]

    # WHEN it is called on
    iterator = iter(DATA)
    for _ in range(4):
        try:
            drawn.append(float(train_step(iterator)))
        except fitroom.DoesNotFit as error:
            assert "draw outside of it" in str(error)
    # THEN the batch that failed made no update, and every other one made its own
    assert fault.strikes == 1
    assert drawn == [float(own_cases.ROWS[place, 0]) for place in (0, 22, 33)]
    assert int(optimizer.iterations) == 3


def on_replicas(fault: faults.Fault) -> tuple[Any, Any, Any]:
    """A model on two replicas, and a function that trains it on a distributed dataset."""
    keras.utils.set_random_seed(1)
    strategy = mirrored()
    with strategy.scope():
        model = keras.Sequential([keras.Input((12,)), faults.layer(fault), keras.layers.Dense(3)])
        optimizer = keras.optimizers.SGD(0.1)
        optimizer.build(model.trainable_variables)
        loss_function = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def on_replica(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_function(y, model(x, training=True))
        weights = model.trainable_variables
        optimizer.apply(tape.gradient(loss, weights), weights)
        return loss

    @tf.function
    def epoch(data: Any) -> Any:
        total = tf.constant(0.0)
        for x, y in data:
            total += strategy.reduce("SUM", strategy.run(on_replica, (x, y)), axis=None)
        return total

    return model, optimizer, epoch


@pytest.mark.filterwarnings("ignore:To make it possible to preserve tf.data options")  # TensorFlow's, in such loops
@pytest.mark.usefixtures("nothing_is_sure")
def test_replicas_that_may_not_fit_are_given_steps_that_can_be_cut() -> None:
    # GIVEN a loop that fits, and the same loop where one replica runs out now and then
    fault = faults.Fault(at_calls=lambda call: call % 7 == 0, replica=1)
    data = mirrored().experimental_distribute_dataset(DATA)
    (plain, _, plainly), (model, optimizer, epoch) = on_replicas(faults.Fault()), on_replicas(fault)
    guarded = fitroom.step(epoch)
    # WHEN both train
    wanted = [float(plainly(data)) for _ in range(2)]
    found = [float(guarded(data)) for _ in range(2)]
    # THEN Python has looped, every batch made one update, and losses and weights are the same
    assert "loop_in_python" in [event.kind for event in guarded.events]
    assert fault.strikes > 0
    assert int(optimizer.iterations.numpy()) == 8
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    for one, other in zip(model.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.filterwarnings("ignore:To make it possible to preserve tf.data options")
@pytest.mark.usefixtures("nothing_is_sure")
def test_what_a_loop_changes_is_seen_by_every_step() -> None:
    # GIVEN a loop whose step closes over what the loop changes, and is made anew in every call
    strategy = mirrored()
    with strategy.scope():
        weight = tf.Variable(1.0)
        optimizer = keras.optimizers.SGD(0.1)
        optimizer.build([weight])

    def epoch(data: Any) -> Any:
        factor, turns = tf.constant(0.0), 0

        def on_replica(x: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(x) * factor * weight
            optimizer.apply(tape.gradient(loss, [weight]), [weight])
            return loss

        for x, _ in data:
            factor += 1.0
            turns += 1
            strategy.run(on_replica, (x,))
        return turns

    data, found = strategy.experimental_distribute_dataset(DATA), []
    # WHEN it is called plainly, and guarded
    for function in (tf.function(epoch), fitroom.step(tf.function(epoch))):
        weight.assign(1.0)
        turns = function(data)
        found.append((weight.numpy(), turns.numpy()))
    # THEN it does the same, and its count is a tensor both times
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)
    assert found[0][1] == 4


def test_what_runs_eagerly_is_left_alone() -> None:
    seen = []

    @tf.function
    def epoch(data: Any) -> None:
        for x, _ in data:
            seen.append(x.numpy().shape)

    tf.config.run_functions_eagerly(True)
    try:
        fitroom.step(epoch)(DATA)
    finally:
        tf.config.run_functions_eagerly(False)
    assert len(seen) == 4


def test_other_errors_pass_through() -> None:
    _, optimizer, epoch = written(faults.Fault())
    with pytest.raises(ValueError, match="expected axis"):
        epoch(tf.data.Dataset.from_tensor_slices((own_cases.ROWS[:, :5], own_cases.CLASSES)).batch(11))
    assert int(optimizer.iterations) == 0
