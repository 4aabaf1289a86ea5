"""`numpy.load` of a file that does not fit into memory: the file is mapped instead, with the same numbers in it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def map_what_does_not_fit(tell: Callable[..., object]) -> None:
    """Have `numpy.load` map a file whose array could not be allocated."""
    import numpy as np

    plain = np.load

    @functools.wraps(plain)
    def load(file: Any, mmap_mode: Any = None, *args: Any, **kwargs: Any) -> Any:
        try:
            return plain(file, mmap_mode, *args, **kwargs)
        except MemoryError as error:
            mapped = None if mmap_mode is not None else _mapped(plain, file, args, kwargs)
            if mapped is None:
                raise
            tell("mapped", file=str(file), writable=bool(mapped.flags.writeable), evidence=str(error))
            return mapped

    np.load = load


def _mapped(plain: Any, file: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The array in the file, writable without a change to the file where that can be had; None where nothing can."""
    for mode in ("c", "r"):  # a limit on private memory counts what could be written
        try:
            return plain(file, mode, *args, **kwargs)
        except (MemoryError, OSError, ValueError, TypeError):  # no path, no .npy, objects inside: cannot be mapped
            continue
    return None
