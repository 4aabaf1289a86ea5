"""The variables of a function under way, read without leaving a trace.

Up to Python 3.12 ``frame.f_locals`` is one dictionary for each call of a function: the one that ``locals()`` gave, and
may have been kept, ``config = locals()``. To read it brings it up to date, so that the script would find other things
in it than it had put there, and it goes on holding what was read for as long as the function runs.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import inspect
import sys
from types import FrameType
from typing import Any

_OPTIMIZED = 1  # the flag of code whose variables are not in a dictionary
_TAKING = {"locals", "vars", "f_locals", "eval", "exec"}  # names with which code gets at its own
_FRAME = 3  # words from the beginning of a frame to where it says where its variables are, in Python 3.11 and 3.12
_WORDS = 7  # words of that, among which is the dictionary
_WORD = ctypes.sizeof(ctypes.c_void_p)


def of(frame: FrameType | None) -> dict[str, Any]:
    """A copy of a function's variables; nothing where they cannot be read without changing something."""
    if frame is None:
        return {}
    if not frame.f_code.co_flags & _OPTIMIZED:  # a module's, a class's: there they are in a dictionary anyway
        return dict(frame.f_locals)
    before = _dictionaries(frame)
    if before is None and _TAKING & set(frame.f_code.co_names):
        return {}
    contents = [(one, dict(one)) for one in before or ()]
    values = frame.f_locals
    found = dict(values)
    if type(values) is dict:
        values.clear()
        for one, content in contents:
            if one is values:
                values.update(content)
    return found


def _dictionaries(frame: FrameType) -> list[dict[str, Any]] | None:
    """Those of which one is what a function has already, if it has; None where that cannot be told."""
    if sys.version_info >= (3, 13):  # none has any more
        return []
    if sys.version_info < (3, 11):  # those that are its variables' values are among them
        return [one for one in gc.get_referents(frame) if type(one) is dict and one is not frame.f_globals]
    at = _place()
    if at is None:
        return None
    found = _read(frame, at)
    return [found] if found is not None else []


@functools.cache
def _place() -> int | None:
    """Which word it is: looked for in a function of ours, whose dictionary is known; None where it is not found."""
    frame = inspect.currentframe()
    known = locals()
    if frame is None:
        return None
    words = _words(frame)
    return words.index(id(known)) if id(known) in words else None


def _words(frame: FrameType) -> list[int]:
    inner = ctypes.c_void_p.from_address(id(frame) + _FRAME * _WORD).value or 0
    return [ctypes.c_void_p.from_address(inner + number * _WORD).value or 0 for number in range(_WORDS)]


def _read(frame: FrameType, at: int) -> dict[str, Any] | None:
    address = _words(frame)[at]
    found = ctypes.cast(address, ctypes.py_object).value if address else None
    return found if type(found) is dict else None
