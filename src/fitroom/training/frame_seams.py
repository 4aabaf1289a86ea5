"""Whether a call is still under way, seen from another thread: only CPython tells. Tried on 3.11."""

from __future__ import annotations

import sys
import threading


class UnderWay:
    """The innermost call of a function of this name, in the thread that asks for it.

    Where there is none, it counts as under way for ever: somebody calls the callbacks from a loop of their own.
    """

    def __init__(self, name: str) -> None:
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_name != name:
            frame = frame.f_back  # type: ignore[assignment] # None at the outermost
        self._thread = threading.get_ident()
        self._frame = frame

    def __bool__(self) -> bool:
        if self._frame is None:
            return True
        frame = sys._current_frames().get(self._thread)
        while frame is not None and frame is not self._frame:
            frame = frame.f_back
        return frame is not None
