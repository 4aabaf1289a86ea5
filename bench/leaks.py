"""Training with the watch for leaks against training without, where nothing leaks: time of an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.measure import Ratio, interleaved

_PAIRS = 101  # short ones: on a shared machine many tell more than long ones


def run() -> Iterator[Ratio]:
    from fitroom.leaks import watching

    watching.begin(act=True)
    for name in ("mlp", "cnn", "transformer"):
        yield _time(name)
    yield _by_hand()


def _time(name: str) -> Ratio:
    from bench.models import case
    from fitroom.leaks import tf_seams

    chosen = case(name)
    model = chosen.build(jit_compile=False)

    def epoch() -> Any:
        return model.fit(chosen.x, chosen.y, batch_size=chosen.batch, verbose=0)

    def without() -> None:
        with tf_seams.unhooked():
            epoch()

    return interleaved(f"{name}, time of an epoch: watched ÷ not", epoch, without, pairs=_PAIRS, goal=1.02)


def _by_hand() -> Ratio:
    """Small steps of a function, some hundred at a time: what a tick costs."""
    import tensorflow as tf

    from fitroom.leaks import tf_seams

    weights = tf.Variable(tf.random.normal((256, 256)))
    x = tf.random.normal((64, 256))

    @tf.function
    def step(features: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.matmul(tf.nn.relu(tf.matmul(features, weights)), weights) ** 2)
        weights.assign_sub(1e-6 * tape.gradient(loss, weights))
        return loss

    def steps() -> None:
        for _ in range(300):
            step(x)

    def without() -> None:
        with tf_seams.unhooked():
            steps()

    return interleaved("300 small steps by hand: watched ÷ not", steps, without, pairs=2 * _PAIRS, goal=1.02)
