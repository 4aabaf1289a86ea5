"""Something to do once a module has been imported, whoever imports it."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as in typing: every Python that a script starts imports this module

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def after_import(name: str, then: Callable[[], None]) -> None:
    """Call `then` once the module `name` has been imported; now, if it has been."""
    if name in sys.modules:
        then()
        return
    for finder in sys.meta_path:
        if isinstance(finder, _Finder) and finder.name == name:
            finder.then.append(then)
            return
    sys.meta_path.insert(0, _Finder(name, then))  # its base class would take long to import


class _Finder:
    """Finds nothing itself: has the others find the module, and adds to what its loader does."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self.name = name
        self.then = [then]
        self._asked = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The module's spec, as Python's own finders give it, with a loader that does more."""
        if name != self.name or self._asked:
            return None
        import importlib.util

        self._asked = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asked = False
        if spec is None or spec.loader is None:
            return None
        loader: Any = spec.loader
        load = loader.exec_module

        def exec_module(module: Any) -> None:
            del loader.exec_module
            load(module)
            sys.meta_path.remove(self)
            for then in self.then:
                then()

        loader.exec_module = exec_module
        return spec
