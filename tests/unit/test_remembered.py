"""Sizes that are remembered from run to run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import pytest

import fitroom
from fitroom.devices.meter import Meter
from fitroom.training.guarding import events
from fitroom.training.remembered import Remembered, folder, remembered_for
from tests.guard_cases import LABELS, MODELS, make


def test_what_was_written_is_read_and_nothing_else() -> None:
    Remembered(["a", 1]).write(64, 8)
    Remembered(["a", 1]).write(32, 4)
    assert Remembered(["a", 1]).read(64) == 8
    assert Remembered(["a", 1]).read(32) == 4
    assert Remembered(["a", 1]).read(16) is None
    assert Remembered(["a", 2]).read(64) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"64": "8"}', '{"64": 0}', '{"64": 64}', '{"64": null}'])
def test_a_spoilt_file_is_as_none(text: str) -> None:
    Remembered(["a"]).write(64, 8)
    place = folder()
    assert place is not None
    (path,) = place.iterdir()
    path.write_text(text)
    assert Remembered(["a"]).read(64) is None
    Remembered(["a"]).write(64, 8)
    assert Remembered(["a"]).read(64) == 8


def test_off_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    Remembered(["a"]).write(64, 8)
    monkeypatch.setenv("FITROOM_CACHE", "off")
    assert folder() is None
    assert Remembered(["a"]).read(64) is None
    Remembered(["a"]).write(64, 4)
    monkeypatch.delenv("FITROOM_CACHE")
    assert Remembered(["a"]).read(64) == 8


def test_another_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FITROOM_CACHE", str(tmp_path / "mine"))
    Remembered(["a"]).write(64, 8)
    assert len(list((tmp_path / "mine").iterdir())) == 1


def test_a_folder_that_cannot_be_written_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FITROOM_CACHE", str(tmp_path / "file" / "below"))
    Remembered(["a"]).write(64, 8)
    assert Remembered(["a"]).read(64) is None


def train(optimizer: str = "adam", name: str = "cnn_layer_norm", **options: Any) -> list[str]:
    """One training in which slices larger than 4 never fit; the kinds of its events."""
    keras.backend.clear_session()
    sizes: list[int] = []

    class Limited(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            def check(value: Any) -> Any:
                sizes.append(len(value))
                if len(value) > 4:
                    raise MemoryError("injected")
                return value

            import tensorflow as tf

            return tf.grad_pass_through(lambda v: tf.ensure_shape(tf.numpy_function(check, [v], v.dtype), v.shape))(x)

    Limited.__module__ = "keras.limited"
    keras.utils.set_random_seed(3)
    inner = make(name, optimizer)
    inputs = keras.Input(MODELS[name][1].shape[1:])
    model = keras.Model(inputs, inner(Limited()(inputs)))
    model.compile(inner.optimizer.__class__(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    fitroom.guard(model, **options)
    model.fit(MODELS[name][1][:32], LABELS[:32], batch_size=16, verbose=0)
    assert int(model.optimizer.iterations) == 2
    return [event.kind for event in events(model)]


def test_the_second_run_suffers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert train().count("oom") >= 1
    # The same again: no error. Another optimizer or budget: another training, which has to find out.
    assert train() == ["rung"]
    assert train("momentum").count("oom") >= 1
    with pytest.warns(UserWarning, match="only decides how large slices are"):
        assert train(budget="1GiB").count("oom") >= 1
    monkeypatch.setenv("FITROOM_CACHE", "off")
    assert train().count("oom") >= 1


def test_it_is_forgotten_when_versions_or_the_device_change(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make("cnn_layer_norm", "adam")

    def known(meter: Meter) -> int | None:
        found = remembered_for("train", meter, model, model.optimizer)
        assert found is not None
        return found.read(64)

    found = remembered_for("train", Meter("GPU:0", 1000), model, model.optimizer)
    assert found is not None
    found.write(64, 8)
    assert known(Meter("GPU:0", 1000)) == 8
    assert known(Meter("GPU:0", 2000)) is None
    assert known(Meter("GPU:1", 1000)) is None
    monkeypatch.setattr(keras, "__version__", "99")
    assert known(Meter("GPU:0", 1000)) is None


def test_a_remembered_size_that_no_longer_fits_is_found_anew() -> None:
    train()
    place = folder()
    assert place is not None
    for path in place.iterdir():
        path.write_text('{"16": 12}')
    assert train().count("oom") >= 1
    assert train() == ["rung"]
