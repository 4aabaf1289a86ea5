"""Results of long measurements, kept in `bench/results/` until `make clean`: a run that was stopped goes on.

What depends on TensorFlow and the processor's instructions alone is also kept in `bench/known/`, with the project.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "results"
_KNOWN = Path(__file__).parent / "known"
_SOURCE = Path(__file__).parents[1] / "src" / "fitroom"
_LOCK = threading.Lock()


def kept(file: str, key: str, measure: Callable[[], Any]) -> Any:
    """What was measured under this key, measured now if that has not been done."""
    with _LOCK:  # a file that is being written cannot be read
        known = _load(file)
    if key not in known:
        found = measure()
        with _LOCK:
            known = {**_load(file), key: found}
            _FOLDER.mkdir(exist_ok=True)  # what is known goes along, which does no harm
            (_FOLDER / file).write_text(json.dumps(known, indent=0))
    return known[key]


def code_of(*parts: str) -> str:
    """What tells these parts of the source, folders or files, from any other version of them."""
    found = [_SOURCE / part for part in parts]
    files = sorted(path for one in found for path in (one.rglob("*.py") if one.is_dir() else [one]))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def processor() -> str:
    """The widest instructions that TensorFlow takes on this processor: what its kernels take for themselves differs.

    An AMD EPYC and an Intel Xeon with AVX-512, the latter with AMX, took the same on 14 settings, as far as runs agree.
    """
    lines = (line.partition(":") for line in Path("/proc/cpuinfo").read_text().splitlines())
    facts = {name.strip(): value.strip() for name, _, value in lines}
    flags = facts.get("flags", "").split()
    return next((name for name in ("avx512f", "avx2", "avx") if name in flags), facts.get("model name", "unknown"))


def _load(file: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in (_KNOWN / file, _FOLDER / file):
        found |= json.loads(path.read_text()) if path.exists() else {}
    return found
