"""Standard input, which every attempt should read from where the run began."""

from __future__ import annotations

import os
import stat


class StandardInput:
    """Where it began."""

    def __init__(self) -> None:
        self._begin: int | None = None
        try:
            if stat.S_ISREG(os.fstat(0).st_mode):
                self._begin = os.lseek(0, 0, os.SEEK_CUR)
        except OSError:  # closed
            pass

    def rewind(self) -> bool:
        """Go back there; False where what has been read is gone."""
        if self._begin is not None:
            os.lseek(0, self._begin, os.SEEK_SET)
            return True
        try:
            mode = os.fstat(0).st_mode
        except OSError:
            return True
        return not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))
