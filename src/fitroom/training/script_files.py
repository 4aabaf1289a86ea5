"""The files that a script consists of, as far as they lie in its folder: whether it is still the same."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

_OTHERS = ("site-packages", "dist-packages", ".venv", ".fitroom")


def checksum(content: bytes) -> str:
    """What tells a file from another."""
    return hashlib.sha256(content).hexdigest()


class ScriptFiles:
    """The script and the modules that it has imported so far from its own folder, or from where it was started.

    Args:
        home: where it was started.
    """

    def __init__(self, home: Path) -> None:
        self._home = home.resolve()
        self._known: dict[str, str] = {}

    def __call__(self) -> dict[str, str]:
        """Each file's path, from where the script was started, and its checksum when it was first seen."""
        main = getattr(sys.modules.get("__main__"), "__file__", None)
        homes = {self._home, *([self._path(main).parent] if main else [])}
        for module in list(sys.modules.values()):
            path = getattr(module, "__file__", None)
            if isinstance(path, str) and path.endswith(".py") and path not in self._known:
                self._known[path] = _checksum_of(self._path(path), homes)
        return {os.path.relpath(self._path(path), self._home): one for path, one in self._known.items() if one}

    def _path(self, path: str) -> Path:
        """A module's file: named from where the script was started, wherever it has gone since."""
        return (self._home / path).resolve()


def _checksum_of(path: Path, homes: set[Path]) -> str:
    inside = any(path.is_relative_to(home) for home in homes)
    if not inside or any(part in _OTHERS for part in path.parts):
        return ""
    try:
        return checksum(path.read_bytes())
    except OSError:
        return ""
