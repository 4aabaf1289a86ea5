"""What went wrong once, or would without notice: each of these was seen."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl
from keras import ops

import fitroom
from fitroom.steps.model_step import model_step
from fitroom.training.guarding import events
from tests import own_cases as own
from tests.faults import Fault, layer
from tests.integration.test_probe import Stepping, cross_entropy, probed, summed

X, Y = own.ROWS[:24], own.CLASSES[:24]


class Measured(Stepping):
    """An own step with a metric per sample."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")

    def train_step(self, data: Any) -> Any:
        x, y = data
        result = super().train_step(data)
        self.accuracy.update_state(y, self(x))
        return {**result, "accuracy": self.accuracy.result()}


def test_metrics_of_an_own_step_come_out_the_same() -> None:
    histories = []
    for plan in (None, "micro_batch=3"):
        keras.utils.set_random_seed(1)
        model = Measured(cross_entropy)
        model.compile(keras.optimizers.SGD(0.1))
        fitroom.guard(model, plan=plan)
        histories.append(model.fit(X, Y, batch_size=12, epochs=2, shuffle=False, verbose=0).history)
    for key in histories[0]:
        np.testing.assert_allclose(histories[0][key], histories[1][key], rtol=1e-5)


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_giving_up_loses_no_batch(steps: int) -> None:
    class ByHand(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            self.count.assign_add(1)
            return {"loss": tf.reduce_mean(self(data[0]))}

    model = ByHand([keras.Input((12,)), kl.Dense(1)])
    model.count = tf.Variable(0)
    model.compile("sgd", "mse", steps_per_execution=steps)
    fitroom.guard(model)
    with pytest.warns(UserWarning, match="does not apply gradients"):
        model.fit(X, Y, batch_size=6, verbose=0)
    assert int(model.count) == 4


def functional(make: Any) -> Any:
    inputs = keras.Input((12,))
    model = keras.Model(inputs, kl.Dense(1)(make(kl.Dense(6)(inputs))))
    model.compile("sgd", "mse")
    return model


@pytest.mark.parametrize(
    ("make", "keeps_the_math"),
    [
        (lambda h: h - ops.mean(h, axis=0, keepdims=True), False),
        (lambda h: ops.tanh(h) * 2, True),
        (kl.Softmax(axis=0), False),
        (kl.Activation(lambda t: t * t - tf.reduce_mean(t * t, 0)), False),
        (kl.Activation("relu"), True),
    ],
    ids=["ops-mixing", "ops", "softmax-axis-0", "activation-mixing", "activation"],
)
def test_keras_own_parts_can_mix_samples_too(make: Any, keeps_the_math: bool) -> None:
    keras.utils.set_random_seed(1)
    assert (probed(functional(make)) == []) is keeps_the_math


class Counting(kl.Layer):
    def build(self, shape: Any) -> None:
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False, name="calls")

    def call(self, x: Any) -> Any:
        self.calls.assign_add(1.0)
        return x


def test_state_that_slices_would_change_otherwise_is_told_of() -> None:
    keras.utils.set_random_seed(1)
    (found,) = probed(functional(Counting()))
    assert "calls" in str(found)


def test_a_weight_moved_by_hand_beside_the_optimizer_is_told_of() -> None:
    class Half(Stepping):
        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                loss = self.objective(self, x, y)
            first, *rest = self.trainable_variables
            gradients = tape.gradient(loss, self.trainable_variables)
            first.assign(first - 0.1 * gradients[0])
            self.optimizer.apply(gradients[1:], rest)
            return {"loss": loss}

    keras.utils.set_random_seed(1)
    model = Half(cross_entropy)
    model.compile(keras.optimizers.SGD(0.1))
    model(X[:2])
    assert probed(model) != []


def test_the_first_samples_do_not_decide_alone() -> None:
    """Five samples without a gradient tell nothing: others are asked."""
    keras.utils.set_random_seed(1)
    model = Stepping(summed, [kl.Dense(3, use_bias=False)])
    model.compile(keras.optimizers.SGD(0.1))
    x = X.copy()
    x[[0, 5, 11, 17, 23]] = 0.0  # those that are asked first
    data = (tf.constant(x), tf.constant(Y))
    step = model_step(model, "train_step")
    assert step.verdict(data).sites == ["sum"]  # type: ignore[attr-defined]


def test_an_evaluation_that_mixes_samples_is_refused() -> None:
    class Contrastive(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.net = kl.Dense(4)

        def call(self, x: Any) -> Any:
            return self.net(x)

        def test_step(self, data: Any) -> Any:
            z = self(data[0] if isinstance(data, tuple) else data)
            labels = tf.range(tf.shape(z)[0])
            return {"loss": tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, z @ tf.transpose(z)))}

    model = Contrastive()
    model.compile("sgd")
    model(X[:2])
    assert "mixes samples" in str(probed(model, "test_step")[0])


def test_the_probe_leaves_nothing_in_functions_of_the_user() -> None:
    dropout = kl.Dropout(0.5, seed=1)
    forward = tf.function(lambda x: dropout(x, training=True))
    dense = kl.Dense(3)
    dense.build((None, 12))
    optimizer = keras.optimizers.SGD(0.1)

    @fitroom.step(plan="micro_batch=2")
    def train_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(dense(forward(x)) ** 2)
        optimizer.apply(tape.gradient(loss, dense.trainable_variables), dense.trainable_variables)
        return loss

    train_step(X[:10], Y[:10])
    for count in (5, 3, 2):
        dropped = sum(int(tf.reduce_sum(tf.cast(forward(tf.ones([count, 12])) == 0, tf.int32))) for _ in range(3))
        assert dropped > 0


def test_eager_python_may_look_at_its_tensors() -> None:
    dense = kl.Dense(3)
    dense.build((None, 12))
    optimizer = keras.optimizers.SGD(0.1)

    @fitroom.step
    def train_step(x: Any, y: Any) -> float:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(dense(x) ** 2)
        optimizer.apply(tape.gradient(loss, dense.trainable_variables), dense.trainable_variables)
        return float(loss)

    with pytest.warns(UserWarning, match="cannot be traced"):
        assert train_step(X, Y) > 0
    assert train_step(X, Y) > 0
    assert int(optimizer.iterations) == 2

    class Looking(Stepping):
        def train_step(self, data: Any) -> Any:
            return {"loss": float(super().train_step(data)["loss"])}

    model = Looking(cross_entropy)
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    fitroom.guard(model).fit(X, Y, batch_size=12, verbose=0)
    assert int(model.optimizer.iterations) == 2


def test_a_probe_that_runs_out_asks_fewer_samples() -> None:
    class Narrow(kl.Layer):
        def call(self, x: Any) -> Any:
            def check(value: Any) -> Any:
                if len(value) > 2:
                    raise MemoryError("injected")
                return value

            return tf.grad_pass_through(lambda v: tf.ensure_shape(tf.numpy_function(check, [v], v.dtype), v.shape))(x)

    model = fitroom.guard(functional(Narrow()))
    model.fit(X[:8], Y[:8], batch_size=4, verbose=0)
    assert int(model.optimizer.iterations) == 2
    assert model.predict(X[:8], batch_size=4, verbose=0).shape == (8, 1)
    assert any(event.kind == "rung" for event in events(model))


def test_an_unreduced_loss_can_be_sliced() -> None:
    losses = []
    for plan in (None, "micro_batch=3"):
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((12,)), kl.Dense(1)])
        model.compile(keras.optimizers.SGD(0.01), keras.losses.MeanSquaredError(reduction="none"))
        fitroom.guard(model, plan=plan)
        losses.append(model.fit(X, Y, batch_size=10, epochs=2, shuffle=False, verbose=0).history["loss"])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)


def test_a_batch_without_an_axis_says_so() -> None:
    fault = Fault(at_calls=lambda call: True)
    model = keras.Sequential([keras.Input((12,)), layer(fault), kl.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1)

    @fitroom.step
    @tf.function
    def train_step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(tf.constant(X)) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    with pytest.raises(fitroom.DoesNotFit, match="no batch axis"):
        train_step()


def test_a_model_that_cannot_be_guarded_trains_as_it_would_without() -> None:
    # GIVEN parts that are built for any batch size, by the step itself
    class Unbuilt(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.maker = keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(2)])

        def train_step(self, data: Any) -> Any:
            noise = tf.ones([tf.shape(data)[0], 4])
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((self.maker(noise) - data) ** 2)
            weights = self.maker.trainable_variables
            self.optimizer.apply(tape.gradient(loss, weights), weights)
            return {"loss": loss}

    def trained(is_guarded: bool) -> list[Any]:
        keras.utils.set_random_seed(1)
        model = Unbuilt()
        model.compile("sgd")
        if is_guarded:
            fitroom.guard(model)
        model.fit(tf.data.Dataset.from_tensor_slices(np.ones((10, 2), np.float32)).batch(4), verbose=0, shuffle=False)
        return list(model.get_weights())

    wanted = trained(False)
    with pytest.warns(UserWarning, match="makes variables while it runs"):
        found = trained(True)
    assert all(np.array_equal(one, other) for one, other in zip(found, wanted, strict=True))
