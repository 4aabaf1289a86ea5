"""A few moments in which an interrupt has to wait: the update is being put in place."""

from __future__ import annotations

import _signal as quick  # type: ignore[import-not-found] # signal's own look handlers up: 30 µs a step
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back to the end of the block, so that the block either ran or did not.

    Only handlers written in Python are held back, and only in the main thread: elsewhere none of them runs.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, Any]] = []
    handlers: dict[int, Any] = {number: quick.getsignal(number) for number in _SIGNALS}
    held = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in held:
        quick.signal(number, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        for number, handler in held.items():
            quick.signal(number, handler)
        for number, frame in came:
            held[number](number, frame)
