"""Loops with a tape and no function: slices in the model's call, the same gradients."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

import fitroom
from fitroom.training.eager_calls import EagerCalls
from fitroom.training.guarding import events
from tests import faults
from tests import own_cases as own
from tests.faults import Fault

X = own.ROWS[:20]


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a batch of 20 did not fit, and slices of 6 did."""
    monkeypatch.setattr(EagerCalls, "_size", lambda self, call: min(call.samples, 6))


def dense() -> Any:
    keras.utils.set_random_seed(2)
    return keras.Sequential([keras.Input((12,)), kl.Dense(6, "relu"), kl.Dense(2)])


def loop(model: Any, steps: int = 5) -> list[float]:
    optimizer = keras.optimizers.Adam(0.01)
    losses = []
    for _ in range(steps):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(X, training=True)))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        losses.append(float(loss))
    return losses


def test_slices_give_the_same_training(small_slices: None) -> None:
    plain, guarded = dense(), fitroom.guard(dense())
    np.testing.assert_allclose(loop(plain), loop(guarded), rtol=1e-5)
    for one, other in zip(plain.get_weights(), guarded.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_where_it_fits_it_is_the_same_to_the_bit_and_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EagerCalls, "_need", None)  # a trial would fail
    plain, guarded = dense(), fitroom.guard(dense())
    assert loop(plain) == loop(guarded)
    for one, other in zip(plain.get_weights(), guarded.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert events(guarded) == ()


@pytest.mark.parametrize("where", ["forward", "gradient"])
def test_a_slice_that_runs_out_goes_on_in_halves(small_slices: None, where: Any) -> None:
    # GIVEN a fault in the second slice of the second step
    def make(fault: Fault | None) -> Any:
        keras.utils.set_random_seed(2)
        layers = [kl.Dense(6, "relu"), *([faults.layer(fault, where)] if fault is not None else []), kl.Dense(2)]
        return keras.Sequential([keras.Input((12,)), *layers])

    fault = Fault(at_calls={10 if where == "forward" else 6})
    fault.armed = False
    plain, guarded = make(None), fitroom.guard(make(fault))
    fault.armed = True
    # WHEN both are trained
    np.testing.assert_allclose(loop(plain), loop(guarded), rtol=1e-5)
    # THEN each sample was counted once
    assert fault.strikes == 1
    for one, other in zip(plain.get_weights(), guarded.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert [(event.kind, event.data.get("size")) for event in events(guarded)] == [("oom", None), ("rung", 3)]


def test_what_was_dropped_with_a_slice_is_not_dropped_otherwise_in_its_halves(small_slices: None) -> None:
    fault = Fault(at_calls={2})
    fault.armed = False
    layers = [kl.Dropout(0.5, seed=3), faults.layer(fault, "gradient"), kl.Dense(2)]
    model = fitroom.guard(keras.Sequential([keras.Input((12,)), *layers]))
    fault.armed = True
    with pytest.raises(tf.errors.ResourceExhaustedError):
        loop(model)


def test_embeddings_and_several_inputs_and_outputs(small_slices: None) -> None:
    def make() -> Any:
        keras.utils.set_random_seed(2)
        tokens, rows = keras.Input((4,), dtype="int32"), keras.Input((12,))
        x = kl.Concatenate()([kl.Flatten()(kl.Embedding(30, 3)(tokens)), rows])
        return keras.Model([tokens, rows], {"a": kl.Dense(2)(x), "b": kl.Dense(1)(x)})

    tokens = np.arange(80).reshape(20, 4) % 30
    found = []
    for model in (make(), fitroom.guard(make())):
        with tf.GradientTape() as tape:
            outputs = model([tf.constant(tokens), tf.constant(X)])
            loss = tf.reduce_mean(outputs["a"] ** 2) + tf.reduce_sum(outputs["b"])
        found.append([tf.convert_to_tensor(one) for one in tape.gradient(loss, model.trainable_variables)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_the_way_back_drops_what_the_way_there_dropped(small_slices: None) -> None:
    """With weights that pass everything on, the gradient is the sum of the outputs, if the masks are the same."""
    model = keras.Sequential([keras.Input((12,)), kl.Dropout(0.5, seed=3), kl.Dense(12, use_bias=False)])
    model.layers[-1].set_weights([np.eye(12, dtype=np.float32)])
    fitroom.guard(model)
    seen = []
    for _ in range(2):
        with tf.GradientTape() as tape:
            outputs = model(X, training=True)
            loss = tf.reduce_sum(outputs[:, 0])
        gradient = tape.gradient(loss, model.trainable_variables)[0]
        np.testing.assert_allclose(gradient[:, 0], tf.reduce_sum(outputs, 0), rtol=1e-5)
        assert float(tf.reduce_mean(tf.cast(outputs == 0, tf.float32))) > 0.2
        seen.append(outputs.numpy())
    assert not np.array_equal(*seen)  # every step draws anew


def test_gradients_of_gradients(small_slices: None) -> None:
    def penalty(model: Any) -> Any:
        x = tf.constant(X)
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                inner.watch(x)
                score = model(x)
            slope = inner.gradient(score, x)
            loss = tf.reduce_mean(tf.square(slope))
        found = outer.gradient(loss, model.trainable_variables)
        return [0.0 if one is None else one for one in found]  # a bias may have no part in it

    for one, other in zip(penalty(dense()), penalty(fitroom.guard(dense())), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-7)


def test_a_batch_that_will_not_fit_and_cannot_be_sliced_is_refused_before_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = keras.Sequential([keras.Input((12,)), kl.Dense(4), kl.BatchNormalization()])
    fitroom.guard(model)
    monkeypatch.setattr("fitroom.training.eager_calls._SAFE", 10**9)
    monkeypatch.setattr(EagerCalls, "_need", lambda self, call, size, meter: size * 10**9)
    with pytest.raises(fitroom.DoesNotFit, match="BatchNormalization") as caught, tf.GradientTape():
        model(X, training=True)
    found = fitroom.diagnose(caught.value)
    assert (found.cause.value, found.advice[0].code) == (
        "batch_or_activations",
        "fitroom.guard(model, allow=('micro_batch',))",
    )


def test_tensors_by_keyword_are_cut_along(small_slices: None, monkeypatch: pytest.MonkeyPatch) -> None:
    class Weighing(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = kl.Dense(3)

        def call(self, x: Any, weights: Any = None) -> Any:
            return self.dense(x) * weights

    def gradient(model: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(tf.constant(X), weights=tf.constant(own.ROWS[:20, :3])) ** 2)
        return tape.gradient(loss, model.trainable_variables)

    plain, guarded = Weighing(), Weighing()
    for model in (plain, guarded):
        model(tf.constant(X), weights=tf.constant(own.ROWS[:20, :3]))
    guarded.set_weights(plain.get_weights())
    for one, other in zip(gradient(plain), gradient(fitroom.guard(guarded)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_losses_that_a_call_adds_are_not_sliced(monkeypatch: pytest.MonkeyPatch) -> None:
    model = keras.Sequential([keras.Input((12,)), kl.Dense(4, activity_regularizer="l2")])
    fitroom.guard(model)
    monkeypatch.setattr("fitroom.training.eager_calls._SAFE", 10**9)
    with tf.GradientTape() as tape:
        model(tf.constant(X))
        loss = sum(model.losses)
    assert tape.gradient(loss, model.trainable_variables)[0] is not None
    assert events(model) == ()
