"""A built, compiled model turned over, and back: precision, optimizer, XLA; and only where that is allowed."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers as kl

import fitroom
from fitroom.errors import UsageError
from fitroom.steps.turning import turn, turn_back
from fitroom.training.guarding import events
from tests import own_cases

GENERATOR = np.random.default_rng(3)
X, Y = GENERATOR.random((48, 12, 12, 3), np.float32), GENERATOR.integers(0, 5, 48)


def make(optimizer: Any = "adam") -> Any:
    keras.utils.set_random_seed(1)
    image = keras.Input((12, 12, 3))
    x = kl.BatchNormalization()(kl.Conv2D(8, 3, activation="relu")(image))
    model = keras.Model(image, kl.Dense(5, activation="softmax")(kl.GlobalAveragePooling2D()(x)))
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def fit(model: Any, epochs: int = 1) -> list[float]:
    losses: list[float] = model.fit(X, Y, batch_size=16, epochs=epochs, verbose=0).history["loss"]
    return losses


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_layers_compute_in_sixteen_bits_and_weights_stay(kind: str) -> None:
    model = make()
    turned = turn(model, precision=kind)
    *inner, last = model.layers
    assert {one.compute_dtype for one in inner} == {kind}
    assert last.compute_dtype == "float32"  # what the model returns
    assert {one.dtype for one in model.trainable_variables} == {"float32"}
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer) == (kind == "float16")
    assert fit(model, 4)[-1] < 1.7
    turn_back(turned)
    assert {one.compute_dtype for one in model.layers} == {"float32"}
    assert type(model.optimizer) is keras.optimizers.Adam


def test_back_is_back_to_the_bit() -> None:
    """Turned over and back before it trains, a model trains as if nothing had been."""
    plain, turned = make(), make()
    turn_back(turn(turned, precision="float16", optimizer="lion", xla="on"))
    fit(plain), fit(turned)
    for one, other in zip(plain.get_weights(), turned.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("kind", "made", "factor"), [("adafactor", "Adafactor", 10), ("lion", "Lion", 0.2), ("sgd", "SGD", 10)]
)
def test_a_leaner_optimizer_says_what_it_took_over(kind: str, made: str, factor: float) -> None:
    model = make(keras.optimizers.AdamW(0.01, weight_decay=0.1, clipnorm=2.0, use_ema=True))
    (turned,) = turn(model, optimizer=kind)
    optimizer = model.optimizer
    assert type(optimizer).__name__ == made
    assert float(optimizer.learning_rate) == pytest.approx(0.01 * factor)
    assert optimizer.weight_decay == pytest.approx(0.5 if kind == "lion" else 0.1)
    assert (optimizer.clipnorm, optimizer.use_ema) == (2.0, True)
    assert f"{made} instead of AdamW" in turned.words
    assert not turned.exact


def test_slots_that_are_there_leave_and_come_back() -> None:
    model = make()
    fit(model)
    before = [one.numpy() for one in model.optimizer.variables]
    turned = turn(model, optimizer="sgd")
    fit(model)
    turn_back(turned)
    assert type(model.optimizer) is keras.optimizers.Adam
    for one, other in zip(before, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(one, other.numpy())


def test_a_schedule_goes_along_and_one_of_ones_own_is_refused() -> None:
    model = make(keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(1e-3, 100)))
    turn(model, optimizer="lion")
    assert float(model.optimizer.learning_rate) == pytest.approx(2e-4)
    with pytest.raises(UsageError, match="nothing to gain"):
        turn(make("sgd"), optimizer="lion")


def test_a_schedule_of_ones_own_cannot_be_carried_over() -> None:
    class Own(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step: Any) -> Any:
            return 1e-3

    model = make(keras.optimizers.Adam(Own()))
    with pytest.raises(UsageError, match="not one of Keras' own"):
        turn(model, xla="on", optimizer="lion")
    assert not model.jit_compile  # as it was


def test_a_new_compilation_is_the_users() -> None:
    model = make()
    turned = turn(model, optimizer="adafactor", xla="on")
    model.compile(keras.optimizers.SGD(1e-5), "sparse_categorical_crossentropy", jit_compile=False)
    turn_back(turned)
    assert type(model.optimizer) is keras.optimizers.SGD
    assert float(model.optimizer.learning_rate) == pytest.approx(1e-5)


def test_layers_that_were_frozen_meanwhile_are_no_obstacle_to_the_way_back() -> None:
    model = make()
    fit(model)
    turned = turn(model, optimizer="sgd")
    model.layers[1].trainable = False
    turn_back(turned)
    assert type(model.optimizer) is keras.optimizers.Adam


def test_a_step_of_ones_own_does_not_scale_its_loss() -> None:
    model = own_cases.vae(lambda: keras.optimizers.Adam(0.01))
    with pytest.raises(UsageError, match="mixed_precision=bfloat16"):
        turn(model, precision="float16", optimizer="lion")
    assert type(model.optimizer) is keras.optimizers.Adam  # as it was


class TestGuard:
    """What the guard does of it, and says."""

    @pytest.mark.parametrize("plan", ["mixed_precision", "lean_optimizer=lion", "micro_batch=2, mixed_precision"])
    def test_never_unless_it_is_allowed(self, plan: str) -> None:
        with pytest.raises(UsageError, match="allowed by name"):
            fitroom.guard(make(), plan=plan)

    def test_what_changed_is_in_the_record_and_in_the_closing_line(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        allow = ("mixed_precision", "lean_optimizer")
        model = fitroom.guard(make(), allow=allow, plan="mixed_precision, lean_optimizer=lion")
        fit(model)
        told = [event.data for event in events(model) if event.kind == "turned"]
        assert [one["what"] for one in told] == ["optimizer", "precision"]
        said = capsys.readouterr().err
        assert "Lion instead of Adam" in said
        assert "allowed by you, which is another training" in said
        # AND a saved model has it, and loads without fitroom
        model.save(tmp_path / "model.keras")
        loaded = keras.models.load_model(tmp_path / "model.keras")
        assert loaded.layers[1].compute_dtype == "float16"
        # AND the guard gives the model back
        fitroom.unguard(model)
        assert model.layers[1].compute_dtype == "float32"
        assert type(model.optimizer) is keras.optimizers.Adam

    def test_evaluation_in_smaller_pieces(self) -> None:
        plain, pieces = make(), fitroom.guard(make(), plan="eval_batch=5")
        want, got = (one.evaluate(X, Y, batch_size=16, verbose=0) for one in (plain, pieces))
        assert got == pytest.approx(want, rel=1e-5)
        np.testing.assert_allclose(pieces.predict(X, verbose=0), plain.predict(X, verbose=0), atol=1e-6)
        fit(pieces)
        sizes = {(event.data["of"], event.data.get("size")) for event in events(pieces) if event.kind == "rung"}
        assert sizes == {("evaluate", 5), ("predict", 5)}

    def test_arrays_of_64_bits_by_the_batch_give_the_same_bits(self, capsys: pytest.CaptureFixture[str]) -> None:
        wide = {"x": X.astype(np.float64), "y": Y, "sample_weight": GENERATOR.random(48)}

        def trained(plan: str | None) -> tuple[Any, Any]:
            model = make()
            model = model if plan is None else fitroom.guard(model, plan=plan)
            keras.utils.set_random_seed(7)
            history = model.fit(**wide, batch_size=10, epochs=2, validation_data=(wide["x"][:20], Y[:20]), verbose=0)
            return history.history, [*model.get_weights(), model.predict(wide["x"], verbose=0)]

        (one, weights), (other, weights_too) = trained(None), trained("float32_data")
        assert one == other
        for a, b in zip(weights, weights_too, strict=True):
            np.testing.assert_array_equal(a, b)
        assert "cast batch by batch" in capsys.readouterr().err

    def test_several_inputs_stay_in_their_places(self) -> None:
        """Keras keeps the order of an OrderedDict, tf.data sorts it."""
        inputs = {name: keras.Input((1,), name=name) for name in ("b", "a")}
        model = keras.Model(inputs, kl.Lambda(lambda one: one["b"] - 2 * one["a"])(inputs))
        data = OrderedDict(b=np.zeros((6, 1)), a=np.ones((6, 1)))
        plain = model.predict(data, verbose=0)
        np.testing.assert_array_equal(fitroom.guard(model, plan="float32_data").predict(data, verbose=0), plain)

    def test_an_allocator_that_needs_a_new_process_says_so(self) -> None:
        with pytest.warns(UserWarning, match="fitroom run --plan allocator=growth"):
            fitroom.guard(make(), plan="allocator=growth")
