"""Orders and draws that no seed of the script's decides, decided by a recorded one: a restart finds the same again.

They are as random as before; each run has another seed.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as in typing: every script imports this module, and few import TensorFlow at once

if TYPE_CHECKING:
    from typing import Any


def seed_python(seed: int) -> None:
    """Have Python's `random` begin with `seed`."""
    sys.modules["random"].seed(seed)


def seed_numpy(seed: int) -> None:
    """Have NumPy's own generator begin with `seed`, and those that a script makes without a seed follow from it."""
    random = sys.modules["numpy.random"]  # numpy itself may still be on its way
    random.seed(seed % 2**32)
    plain, entropy = random.default_rng, random.SeedSequence(seed)

    def default_rng(seed: Any = None) -> Any:
        return plain(entropy.spawn(1)[0] if seed is None else seed)

    default_rng.__doc__ = plain.__doc__
    random.default_rng = default_rng  # type: ignore[attr-defined] # a module's


def nth(seed: int, number: int) -> int:
    """One of many seeds that follow from one: far apart, and positive."""
    return (seed ^ (number * 0x9E3779B97F4A7C15)) % 2**62


class ArrayOrder:
    """The order of arrays that Keras shuffles in a `fit`: another one in every epoch, the same ones in every attempt.

    Args:
        seed: the run's.
        number: which shuffled arrays of the process these are.
    """

    def __init__(self, seed: int, number: int) -> None:
        import tensorflow as tf

        self._key = nth(seed, number)
        self._generator = tf.random.Generator.from_key_counter(self._key, [0, 0], "philox")

    def begin(self, epoch: int) -> None:
        """Before an epoch."""
        self._generator.reset_from_key_counter(self._key, [0, epoch])

    def shuffle(self, value: Any) -> Any:
        """The value, its rows in another order."""
        import tensorflow as tf

        keys = self._generator.uniform_full_int([tf.shape(value)[0]], tf.int64)
        return tf.gather(value, tf.argsort(keys))
