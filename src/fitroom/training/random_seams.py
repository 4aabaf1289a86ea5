"""Where the global random numbers of TensorFlow and Keras stand. Tried on Keras 3.15.1 with TensorFlow 2.21.0."""

from __future__ import annotations

from typing import Any

from keras.src.backend.common import global_state
from keras.src.random import seed_generator
from tensorflow.python.eager import context


def read_tensorflow() -> Any:
    """What decides the seeds of operations that get none; None where no seed is set."""
    rng = getattr(context.context(), "_rng", None)
    return None if rng is None else (context.global_seed(), rng.getstate())


def write_tensorflow(state: Any) -> None:
    """Put it back."""
    if state is None:
        return
    seed, inner = state
    if context.global_seed() != seed:
        context.set_global_seed(seed)
    context.context()._rng.setstate(inner)


def read_keras() -> Any:
    """The state of Keras' global generator; None where nothing has used it."""
    generator = global_state.get_global_attribute(seed_generator.GLOBAL_SEED_GENERATOR)
    return None if generator is None else generator.state.numpy()


def write_keras(state: Any) -> None:
    """Put it back."""
    if state is not None:
        seed_generator.global_seed_generator().state.assign(state)
