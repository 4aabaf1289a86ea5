"""The hooks in Keras and TensorFlow: what they tell, and that nothing of theirs reaches the script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from fitroom.leaks import asking_seams, tf_seams
from fitroom.leaks.watch import Watch


class Told:
    """Whoever is told; raises where it is to."""

    def __init__(self, raises: bool = False) -> None:
        self.counts: Counter[str] = Counter()
        self.lost_by: list[Exception] = []
        self.raises = raises
        self.is_on = True

    def _take(self, what: str) -> None:
        self.counts[what] += 1
        if self.raises:
            raise RuntimeError(what)

    def tick(self, kind: str) -> None:
        self._take(kind)

    def called(self, kind: str) -> None:
        self._take(kind)

    def made(self, kind: str) -> None:
        self._take(f"made {kind}")

    def traced(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], new: int) -> None:
        self._take("traced")

    def program(self, function: Any) -> None:
        self._take("program")

    def failed(self, error: Exception, model: Any) -> None:
        self._take("failed")

    def begins(self, model: Any) -> None:
        self._take("begins")

    def lost(self, error: Exception) -> None:
        self.lost_by.append(error)


@pytest.fixture
def hooked() -> Iterator[Told]:
    told = Told()
    tf_seams.install(told)
    yield told
    tf_seams.uninstall()


def small() -> Any:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


X = np.zeros((32, 4), "float32")


def test_whatever_goes_wrong_in_a_hook_the_script_goes_on(hooked: Told) -> None:
    hooked.raises = True
    model = small()
    model.fit(X, X[:, :1], verbose=0)
    assert model.predict(X, verbose=0).shape == (32, 1)
    assert int(tf.function(lambda x: x + 1)(tf.constant(1))) == 2
    tf.data.Dataset.from_tensor_slices(X)
    assert {"made model", "begins", "fit", "predict", "traced", "made dataset"} <= set(hooked.counts)
    assert len(hooked.lost_by) >= 6


@pytest.mark.parametrize("is_compiled", [False, True])
def test_arguments_that_are_odd_are_described(hooked: Told, is_compiled: bool) -> None:
    events: list[str] = []
    watch = Watch(lambda kind, **data: events.append(f"{kind} {data}"))
    hooked.traced = watch.traced  # type: ignore[method-assign]
    odd: list[Any] = [tf.Variable([1.0, 2.0], shape=tf.TensorShape(None)), tf.ragged.constant([[1.0], [2.0, 3.0]])]
    odd = odd[:1] if is_compiled else odd
    for one in odd:
        assert int(tf.function(lambda odd, x: x + 1, jit_compile=is_compiled)(one, tf.constant(1))) == 2
    assert (hooked.lost_by, events) == ([], [])


def test_what_a_callback_calls_is_counted_and_what_keras_calls_is_not(hooked: Told) -> None:
    class Monitor(keras.callbacks.Callback):  # type: ignore[misc] # Keras has no types
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.predict(X, verbose=0)
            tf.data.Dataset.from_tensor_slices(X).batch(4)

    model = small()
    before = Counter(hooked.counts)
    model.fit(X, X[:, :1], validation_data=(X, X[:, :1]), epochs=3, verbose=0, callbacks=[Monitor()])
    since = hooked.counts - before
    assert (since["predict"], since["fit"], since["begins"]) == (3, 1, 1)
    assert since["evaluate"] == 0  # which is fit's own
    assert since["made dataset"] == 6


def test_clearing_leaves_a_strategy_its_scope_and_keras_its_state() -> None:
    strategy = tf.distribute.MirroredStrategy(["cpu:0"])
    graph = tf.compat.v1.get_default_graph()
    tracker = keras.src.backend.common.global_state.GLOBAL_STATE_TRACKER
    with strategy.scope():
        asking_seams.clear_session()
        assert tf.distribute.get_strategy() is strategy
    assert tf.compat.v1.get_default_graph() is graph
    assert keras.src.backend.common.global_state.GLOBAL_STATE_TRACKER is tracker
