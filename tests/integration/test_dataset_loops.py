"""A training function that loops over a dataset by itself: refused where a batch does not fit, with nothing spoilt."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import fitroom
from tests import faults, own_cases

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
    with (
        pytest.warns(UserWarning, match="loop outside of it, and give the function one batch at a time"),
        pytest.raises(fitroom.DoesNotFit, match="Nothing of this call is left"),
    ):
        epoch(DATA)
    # THEN the first two batches' updates are undone, too, and the next call trains
    after = [*model.get_weights(), *(variable.numpy() for variable in optimizer.variables)]
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))
    epoch(DATA)
    assert int(optimizer.iterations) == 4


def test_what_runs_eagerly_is_left_alone() -> None:
    seen = []

    @tf.function
    def epoch(data: Any) -> None:
        for x, _ in data:
            seen.append(x.numpy().shape)

    tf.config.run_functions_eagerly(True)
    try:
        with pytest.warns(UserWarning, match="loops over a dataset"):
            fitroom.step(epoch)(DATA)
    finally:
        tf.config.run_functions_eagerly(False)
    assert len(seen) == 4


def test_other_errors_pass_through() -> None:
    _, optimizer, epoch = written(faults.Fault())
    with pytest.warns(UserWarning, match="loops over a dataset"), pytest.raises(ValueError, match="expected axis"):
        epoch(tf.data.Dataset.from_tensor_slices((own_cases.ROWS[:, :5], own_cases.CLASSES)).batch(11))
    assert int(optimizer.iterations) == 0
