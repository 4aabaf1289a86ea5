"""Keras callbacks: thin covers over what other parts do."""

from __future__ import annotations

import sys
from typing import Any

import keras

from fitroom.core import Diagnosis
from fitroom.core.leak_words import sentence
from fitroom.leaks import watching


class LeakWatch(keras.callbacks.Callback):  # type: ignore[misc] # Keras has no types
    """Watches a training for leaks, and says what leaks, on which line, and what to do.

    A training that is healthy prints nothing. Made once and given to several `fit`s, or made anew for each, it watches
    the process from the first time on: loops over trainings, too, and what is done between them.

    Args:
        act: whether to do something about a leak, where that changes no result: collect garbage, have malloc give back
            what it keeps, clear Keras' session between trainings.

    Example:
        >>> model.fit(x, y, callbacks=[fitroom.callbacks.LeakWatch()])
    """

    def __init__(self, act: bool = False) -> None:
        super().__init__()
        self._watch: Any = watching.begin(act=act)
        self._said: set[Any] = set()

    @property
    def found(self) -> list[Diagnosis]:
        """What leaks, as far as is known."""
        return [leak.diagnosis() for leak in self._watch.leaks] if self._watch is not None else []

    def on_train_end(self, logs: Any = None) -> None:
        """Say what was found, once; under ``fitroom run`` the account does."""
        for leak in self._watch.leaks if self._watch is not None and not watching.is_supervised() else ():
            if leak.key not in self._said:
                self._said.add(leak.key)
                print(f"fitroom: {sentence(leak.event())}", file=sys.stderr)
