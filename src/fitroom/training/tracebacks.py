"""A script's uncaught exception, shown without our frames: it is to look as under plain Python."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as in typing: every Python that a script starts imports this module

if TYPE_CHECKING:
    from types import TracebackType

_OURS = __file__.removesuffix("training/tracebacks.py")


def hide_our_frames() -> None:
    """Leave our frames out of what Python shows of an uncaught exception; a hook of the script's own sees them all."""

    def excepthook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        seen: set[int] = set()
        chain: list[BaseException | None] = [error]
        while chain:
            one = chain.pop()
            if one is not None and id(one) not in seen:
                seen.add(id(one))
                one.__traceback__ = _without_ours(one.__traceback__)
                chain += [one.__cause__, one.__context__]
        sys.__excepthook__(kind, error, error.__traceback__)

    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = excepthook


def _without_ours(traceback: TracebackType | None) -> TracebackType | None:
    first = _skipped(traceback)
    frame = first
    while frame is not None:
        frame.tb_next = _skipped(frame.tb_next)
        frame = frame.tb_next
    return first


def _skipped(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(_OURS):
        traceback = traceback.tb_next
    return traceback
