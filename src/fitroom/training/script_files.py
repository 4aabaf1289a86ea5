"""The files that a script consists of, as far as they lie in its folder: whether it is still the same."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

_OTHERS = ("site-packages", "dist-packages", ".venv", ".fitroom")


def checksum(content: bytes) -> str:
    """What tells a file from another."""
    return hashlib.sha256(content).hexdigest()


class ScriptFiles:
    """The script and the modules that it has imported so far from its own folder, or from where it runs."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def __call__(self) -> dict[str, str]:
        """Each file's path, from where the script runs, and its checksum when it was first seen."""
        here = Path.cwd()
        main = getattr(sys.modules.get("__main__"), "__file__", None)
        homes = {here, *([Path(main).resolve().parent] if main else [])}
        for module in list(sys.modules.values()):
            path = getattr(module, "__file__", None)
            if isinstance(path, str) and path.endswith(".py") and path not in self._known:
                self._known[path] = _checksum_of(Path(path), homes)
        return {_named(Path(path), here): one for path, one in self._known.items() if one}


def _checksum_of(path: Path, homes: set[Path]) -> str:
    path = path.resolve()
    inside = any(path.is_relative_to(home) for home in homes)
    if not inside or any(part in _OTHERS for part in path.parts):
        return ""
    try:
        return checksum(path.read_bytes())
    except OSError:
        return ""


def _named(path: Path, here: Path) -> str:
    path = path.resolve()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
