"""The user's own code: which frames are theirs, and where they are."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import sysconfig
from collections import deque
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple

_OURS = str(Path(__file__).resolve().parent.parent) + os.sep
_WATCHING = __name__.split(".")[:2]
_STANDARD = tuple(
    {str(Path(sysconfig.get_path(name)).resolve()) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
_PACKAGES = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))


class Place(NamedTuple):
    """A line of the user's code."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{shown(self.file)}:{self.line}"


def shown(file: str) -> str:
    """A file's name as the user would say it: from where they are, or by its name alone."""
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here)) if path.is_absolute() and here in path.parents else path.name


@functools.cache  # of all files: with pandas and scikit-learn there are thousands, asked for again at each look
def is_users_file(file: str) -> bool:
    """Whether a file is the user's: not Python's, not an installed package's, not ours."""
    if file.startswith("<"):
        return file.startswith("<ipython") or file == "<stdin>"
    if "/ipykernel_" in file:  # a cell of a notebook
        return True
    path = os.path.realpath(file)  # pathlib would intern every part: some MiB, which look like a leak
    return not path.startswith((_OURS, *_STANDARD)) and not any(folder in path for folder in _PACKAGES)


def is_users_code(code: CodeType) -> bool:
    """Whether code is the user's."""
    return is_users_file(code.co_filename)


def code_of(function: object) -> CodeType | None:
    """The code of a function; of a method's, not of what TensorFlow binds it with."""
    plain = inspect.unwrap(function) if callable(function) else function
    return getattr(getattr(plain, "__func__", plain), "__code__", None)


def users_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user's code, from `frame` outwards."""
    while frame is not None and not is_users_code(frame.f_code):
        frame = frame.f_back
    return frame


def place_of(frame: FrameType | None) -> Place | None:
    """Where the user's code is at the moment."""
    found = users_frame(frame)
    return Place(found.f_code.co_filename, found.f_lineno, found.f_code.co_name) if found is not None else None


def file_of(module: object) -> str | None:
    """The file that a module was loaded from. Python takes it off the main one as soon as that has come to its end."""
    file = variables_of(module).get("__file__") if isinstance(module, ModuleType) else None
    file = file if isinstance(file, str) else None
    if module is sys.modules.get("__main__"):
        if file is not None:
            _main.append(file)
        return _main[-1] if _main else None
    return file


def variables_of(module: ModuleType) -> dict[str, Any]:
    """A module's variables. One that is imported lazily would be by ``vars``, or by being asked for an attribute."""
    found: dict[str, Any] = object.__getattribute__(module, "__dict__")
    return found


_main: deque[str] = deque(maxlen=1)  # the file that is run


def users_modules() -> list[ModuleType]:
    """The modules that are loaded from the user's files, and the one that is run."""
    found = []
    for name, module in list(sys.modules.items()):
        file = file_of(module)
        is_main = name == "__main__" and (file is None or is_users_file(file))
        if isinstance(module, ModuleType) and (is_main or (file is not None and is_users_file(file))):
            found.append(module)
    return found


def is_users_class(cls: type) -> bool:
    """Whether a class is defined in the user's code."""
    file = file_of(sys.modules.get(cls.__module__))
    return cls.__module__ == "__main__" or (file is not None and is_users_file(file))


def is_by_us(frame: FrameType | None) -> bool:
    """Whether it is fitroom that has TensorFlow do something, from `frame` outwards, not the user nor Keras for them.

    The guard is around every call of Keras' methods; what Keras does in there is what the user's line asked for.
    """
    while frame is not None:
        part = str(frame.f_globals.get("__name__", "")).split(".")
        if part[0] != "tensorflow" and part[:2] != _WATCHING:
            return part[0] == "fitroom"
        frame = frame.f_back
    return False


def is_by_user(frame: FrameType | None) -> bool:
    """Whether it is the user's code that has TensorFlow or Keras do something, from `frame` outwards."""
    while frame is not None:
        if is_users_code(frame.f_code):
            return True
        if str(frame.f_globals.get("__name__", "")).split(".")[0] not in ("tensorflow", "fitroom", "functools"):
            return False
        frame = frame.f_back
    return False


def users_frames(frame: FrameType | None) -> list[FrameType]:
    """All frames of the user's code that are under way, innermost first."""
    found = []
    while frame is not None:
        if is_users_code(frame.f_code):
            found.append(frame)
        frame = frame.f_back
    return found
