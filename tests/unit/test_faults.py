"""The faults that other tests rely on are real, strike where they are told to, and cost no ten seconds."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from fitroom import oom
from tests import faults
from tests.conftest import ROOT, Run
from tests.faults import Fault

X, Y = np.ones((8, 4), np.float32), np.ones((8, 1), np.float32)


def model_with(fault: Fault, where: faults.Where) -> keras.Model:
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(3), faults.layer(fault, where), keras.layers.Dense(1)]
    )
    model.compile("adam", "mse")
    return model


@pytest.mark.parametrize("where", ["forward", "gradient"])
@pytest.mark.parametrize("eager", [False, True])
def test_a_fault_strikes_on_the_call_it_is_told_to(where: faults.Where, eager: bool) -> None:
    fault = Fault(at_calls={2})
    model = model_with(fault, where)
    model.run_eagerly = eager
    model.train_on_batch(X, Y)
    with pytest.raises(tf.errors.ResourceExhaustedError) as caught:
        model.train_on_batch(X, Y)
    found = oom.from_exception(caught.value)
    assert found is not None
    assert found.is_memory
    model.train_on_batch(X, Y)
    assert fault.strikes == 1
    assert fault.calls == 3


@pytest.mark.parametrize("where", ["forward", "gradient"])
def test_a_fault_that_does_not_strike_changes_nothing(where: faults.Where) -> None:
    results = []
    for fault in (Fault(), None):
        keras.utils.set_random_seed(1)
        layers = [
            keras.layers.Dense(3),
            *([faults.layer(fault, where)] if fault else []),
            keras.layers.Dense(1),
        ]
        model = keras.Sequential([keras.Input((4,)), *layers])
        model.compile("sgd", "mse")
        model.fit(X, Y, epochs=3, verbose=0)
        results.append(model.get_weights())
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_fault_in_one_variables_update_leaves_others_updated() -> None:
    fault = Fault(at_calls={1})
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    faults.faulty_update(model.optimizer, 3, fault)
    before = model.get_weights()
    with pytest.raises(tf.errors.ResourceExhaustedError):
        model.train_on_batch(X, Y)
    changed = [not np.array_equal(one, other) for one, other in zip(before, model.get_weights(), strict=True)]
    assert not changed[3]
    assert fault.strikes == 1


REPLICAS = """
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from tests.faults import Fault
strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
fault = Fault(at_calls={2}, replica=1)

@tf.function(autograph=False)
def step():
    return strategy.run(lambda: fault.place(tf.ones([2])))

step()
print("calls", fault.calls)
try:
    step()
except tf.errors.ResourceExhaustedError:
    print("strikes", fault.strikes)
"""


def test_a_fault_strikes_on_one_replica_only(python: Run) -> None:
    done = python("-c", REPLICAS, cwd=ROOT)
    assert done.stdout.splitlines() == ["calls 1", "strikes 1"], done.stderr
