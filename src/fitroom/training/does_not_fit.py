"""The error for a training that no rung could make fit."""

from __future__ import annotations

import tensorflow as tf

from fitroom.core import Attempt
from fitroom.errors import FitroomError


class DoesNotFit(FitroomError, tf.errors.ResourceExhaustedError):  # type: ignore[misc] # TensorFlow has no types
    """The step does not fit the memory there is, with all that was allowed.

    It is also a `tf.errors.ResourceExhaustedError`, so that an existing ``except`` still works. The model is as it
    was before the step.

    Attributes:
        attempt: what was tried last, for `fitroom.diagnose`.
    """

    def __init__(
        self,
        what: str,
        *,
        received: object = None,
        expected: str | None = None,
        hint: str | None = None,
        attempt: Attempt | None = None,
    ) -> None:
        FitroomError.__init__(self, what, received=received, expected=expected, hint=hint)
        tf.errors.ResourceExhaustedError.__init__(self, None, None, str(self.args[0]))
        self.attempt = attempt
        self._keras_call_info_injected = True  # raised in a layer, it passes through Keras as it is
