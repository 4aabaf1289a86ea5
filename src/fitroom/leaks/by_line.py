"""The host's memory by line of the user's code: memray records, its record is added up. An extra: fitroom[lines]."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from fitroom.errors import UsageError
from fitroom.leaks.places import Place, is_users_file

FILE = "lines.bin"
_EXTRA = "pip install 'fitroom[lines]'"


class LineBytes(NamedTuple):
    """What one line, and all that it called, held when most was held."""

    where: str
    nbytes: int
    allocations: int


def check() -> None:
    """Whether it can be done here.

    Raises:
        UsageError: if memray is not installed.
    """
    if importlib.util.find_spec("memray") is None:
        raise UsageError("Lines are recorded with memray, which is not installed", hint=_EXTRA)


def under(path: str) -> tuple[str, ...]:
    """What to put between Python and a script so that memray records it, but not the processes that it starts.

    Not from within the script's process: where it is begun inside an import, Python 3.11 does not tell memray of the
    frames outside of that.
    """
    return ("-m", "memray", "run", "--quiet", "--force", "--output", path)


def worst(path: Path, count: int = 8) -> list[LineBytes]:
    """The lines that held most when most was held, the worst first; nothing where there is no whole record."""
    try:
        import memray

        with memray.FileReader(path) as reader:
            records: Any = list(reader.get_high_watermark_allocation_records(merge_threads=True))
    except (ImportError, OSError, ValueError):
        return []
    nbytes: Counter[str] = Counter()
    allocations: Counter[str] = Counter()
    for record in records:
        where = _users_line(record)
        nbytes[where] += record.size
        allocations[where] += record.n_allocations
    return [LineBytes(where, total, allocations[where]) for where, total in nbytes.most_common(count)]


def _users_line(record: Any) -> str:
    try:
        stack = record.stack_trace()
    except NotImplementedError:  # what was allocated before there was a stack
        stack = []
    for function, file, line in stack:
        if is_users_file(file):
            return str(Place(file, line, function))
    return "imports, and threads of libraries"
