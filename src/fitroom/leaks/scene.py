"""The script at the moment of one look: its modules and files, its functions under way, and what they call things.

Found once for each look: thousands of modules are loaded where pandas or scikit-learn are, and each is asked for its
file.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple

from fitroom.leaks import variables
from fitroom.leaks.places import file_of, users_frames, users_modules, variables_of


class Variable(NamedTuple):
    """A name of the user's for something; `function` is whose it is, "" for a module's."""

    name: str
    file: str
    function: str = ""


class Scene:
    """What there is of the user's, seen from `frame` outwards.

    Attributes:
        files: of the modules that are loaded.
    """

    def __init__(self, frame: FrameType | None) -> None:
        self._modules = users_modules()
        self._frames = users_frames(frame)
        self.files = tuple(file for module in self._modules if (file := file_of(module)))

    def namespaces(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The variables of the modules and of functions under way, with an identity for each namespace."""
        for module in self._modules:
            yield id(module), variables_of(module)
        for frame in self._frames:
            if frame.f_code.co_name != "<module>":
                yield id(frame.f_code), variables.of(frame)

    def variable(self, thing: Any) -> Variable | None:
        """The variable that holds `thing`."""
        return self._variables.get(id(thing))

    @functools.cached_property
    def _variables(self) -> dict[int, Variable]:
        """By the identity of what they hold: who is asked who holds something must not hold it, too."""
        found: dict[int, Variable] = {}
        for module in self._modules:
            file = file_of(module) or ""
            for name, value in list(variables_of(module).items()):
                found.setdefault(id(value), Variable(name, file))
        for frame in self._frames:
            if frame.f_code.co_name != "<module>":
                for name, value in variables.of(frame).items():
                    found.setdefault(id(value), Variable(name, frame.f_code.co_filename, frame.f_code.co_name))
        return found
