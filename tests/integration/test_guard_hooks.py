"""The guard is a guest on the model: it comes, goes, and leaves nothing behind."""

from __future__ import annotations

import gc
import pickle
import weakref
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import fitroom
from fitroom.errors import UsageError
from fitroom.training import keras_seams
from fitroom.training.guarding import events
from tests.conftest import Run
from tests.guard_cases import BATCH, LABELS, MODELS, changed, make, state

X = MODELS["cnn_layer_norm"][1]


def test_guard_returns_the_same_model_and_is_idempotent() -> None:
    model = make("cnn_layer_norm", "adam")
    assert fitroom.guard(fitroom.guard(model)) is model
    model.fit(X, LABELS, batch_size=BATCH, verbose=0)
    assert fitroom.unguard(model) is model
    assert "fit" not in vars(model)
    assert "make_train_function" not in vars(model)
    model.fit(X, LABELS, batch_size=BATCH, verbose=0)
    assert int(model.optimizer.iterations) == 6
    fitroom.unguard(model)


def test_guard_before_compile_and_after_recompile() -> None:
    model = fitroom.guard(MODELS["cnn_layer_norm"][0]())
    for learning_rate in (0.1, 0.01):
        model.compile(keras.optimizers.SGD(learning_rate), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        before = model.get_weights()
        model.fit(X, LABELS, batch_size=BATCH, verbose=0)
        assert int(model.optimizer.iterations) == 3
        assert any(not np.array_equal(one, other) for one, other in zip(before, model.get_weights(), strict=True))


def test_a_saved_model_loads_without_fitroom(tmp_path: Path, python: Run) -> None:
    model = fitroom.guard(make("cnn_layer_norm", "adam"))
    model.fit(X, LABELS, batch_size=BATCH, verbose=0)
    model.save(tmp_path / "model.keras")
    code = f"""
import sys
sys.modules["fitroom"] = None
import keras
model = keras.models.load_model({str(tmp_path / "model.keras")!r})
print(int(model.optimizer.iterations))
"""
    done = python("-c", code)
    assert done.stdout.split() == ["3"], done.stderr


def test_clones_and_pickles_are_plain() -> None:
    model = fitroom.guard(make("cnn_layer_norm", "adam"))
    model.fit(X, LABELS, batch_size=BATCH, verbose=0)
    for copy in (keras.models.clone_model(model), pickle.loads(pickle.dumps(model))):
        assert keras_seams.hooked(copy) is None
        assert "fit" not in vars(copy)


def test_callbacks_are_called_in_keras_order_and_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    calls: list[list[str]] = []
    for guarded in (False, True):
        seen: list[str] = []

        class Notes(keras.callbacks.Callback):
            def __getattribute__(self, name: str) -> Any:
                if name.startswith("on_"):
                    calls[-1].append(name)
                return super().__getattribute__(name)

        calls.append(seen)
        model = make("cnn_layer_norm", "adam")
        if guarded:
            fitroom.guard(model)
        model.fit(X, LABELS, batch_size=BATCH, epochs=2, verbose=0, validation_split=0.2, callbacks=[Notes()])
    assert calls[0] == calls[1]
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_the_progress_bar_is_keras_own(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for guarded in (False, True):
        model = make("cnn_layer_norm", "adam")
        if guarded:
            fitroom.guard(model)
        model.fit(X, LABELS, batch_size=BATCH, epochs=1, verbose=2)
        line = capsys.readouterr().out.splitlines()[-1]
        shown.append(line.split(" - ")[0] + line.split("step")[-1])
    assert shown[0] == shown[1]


def test_other_backends_and_other_objects_train_as_without_us(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make("cnn_layer_norm", "adam")
    monkeypatch.setattr(keras.config, "backend", lambda: "jax")
    with pytest.warns(UserWarning, match="the Keras backend is jax"):
        assert fitroom.guard(model) is model
    monkeypatch.undo()
    assert keras_seams.hooked(model) is None
    with pytest.warns(UserWarning, match="not a Keras 3 model"):
        fitroom.guard(object())


def test_a_version_whose_seams_have_moved_trains_as_without_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keras_seams, "check_steps", lambda: "loss.reduce_weighted_values")
    model = make("cnn_layer_norm", "adam")
    with pytest.warns(UserWarning, match="no longer has"):
        fitroom.guard(model)
    model.fit(X, LABELS, batch_size=BATCH, verbose=0)
    assert int(model.optimizer.iterations) == 3


def test_a_step_that_cannot_be_taken_apart_trains_as_without_us() -> None:
    class ByHand(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                loss = self.compute_loss(x, y, self(x, training=True))
            gradients = tape.gradient(loss, self.trainable_variables)
            for weight, gradient in zip(self.trainable_variables, gradients, strict=True):
                weight.assign_sub(0.01 * gradient)
            self.count.assign_add(1)
            return {"loss": loss}

    keras.utils.set_random_seed(3)
    model = ByHand([keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(5)])
    model.count = tf.Variable(0)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    fitroom.guard(model)
    with pytest.warns(UserWarning, match="does not apply gradients through a Keras optimizer"):
        model.fit(X, LABELS, batch_size=BATCH, verbose=0)
    assert int(model.count) == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"plan": "micro_batch=0"}, "micro_batch=N"),
        ({"plan": "magic"}, "Cannot read this plan"),
        ({"allow": ("magic",)}, "No such remedy"),
        ({"budget": "lots"}, "Cannot read a number of bytes"),
    ],
)
def test_wrong_use_is_told_at_once(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        fitroom.guard(make("cnn_layer_norm", "adam"), **options)


def test_a_step_that_is_no_function_is_told_at_once() -> None:
    with pytest.raises(UsageError, match="takes a function"):
        fitroom.step(3)


def test_a_planned_slicing_of_mixing_layers_is_refused_before_the_first_step() -> None:
    model = fitroom.guard(make("cnn_batch_norm", "adam"), plan="micro_batch=2")
    before = state(model)
    with pytest.raises(fitroom.DoesNotFit, match="normalises over the whole batch"):
        model.fit(MODELS["cnn_batch_norm"][1], LABELS, batch_size=BATCH, verbose=0)
    assert changed(before, state(model)) == []


def test_frozen_batch_normalisation_may_be_sliced() -> None:
    model = make("cnn_batch_norm", "adam")
    model.layers[1].trainable = False
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    fitroom.guard(model, plan="micro_batch=2").fit(MODELS["cnn_batch_norm"][1], LABELS, batch_size=BATCH, verbose=0)
    assert int(model.optimizer.iterations) == 3


def test_the_closing_line_and_the_record_tell_what_was_done(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FITROOM_RECORD", str(tmp_path / "record.jsonl"))
    model = fitroom.guard(make("cnn_layer_norm", "adam"), plan="micro_batch=4")
    model.fit(X, LABELS, batch_size=BATCH, verbose=0)
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "slices of at most 4" in error
    assert "random layers drew other numbers" in error
    assert fitroom.Record.read(tmp_path / "record.jsonl").events == events(model)


def test_an_iterator_is_not_kept_alive() -> None:
    # Its threads and buffers would be, until the next fit.
    model = fitroom.guard(make("cnn_layer_norm", "adam"))
    iterator: Any = iter(tf.data.Dataset.from_tensor_slices((X, LABELS)).batch(BATCH))
    alive = weakref.ref(iterator)
    model.make_train_function()(iterator)
    del iterator
    gc.collect()
    assert alive() is None
