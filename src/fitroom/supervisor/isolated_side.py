"""The other process of `fitroom.isolated`: takes a call, makes it, answers. Started by it, with two pipes."""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from typing import Any


def main(source: int, target: int) -> None:
    """Make the call that arrives at `source`, and answer at `target` with its result or its exception."""
    import cloudpickle

    os.set_inheritable(source, False)
    os.set_inheritable(target, False)
    with os.fdopen(source, "rb") as pipe:
        packed = pickle.loads(pipe.read())
    sys.path[:] = packed["path"]
    answer: tuple[Any, BaseException | None, str]
    try:
        function, args, kwargs = pickle.loads(packed["call"])
        answer = (function(*args, **kwargs), None, "")
    except Exception as error:
        answer = (None, error, traceback.format_exc())
    try:
        content = cloudpickle.dumps(answer)
        if answer[1] is not None:
            pickle.loads(content)  # some exceptions can be packed and not unpacked
    except Exception as error:
        content = cloudpickle.dumps((None, *_cannot_be_handed_back(answer, error)))
    with os.fdopen(target, "wb") as pipe:
        pipe.write(content)


def _cannot_be_handed_back(answer: tuple[Any, Any, str], problem: Exception) -> tuple[Exception, str]:
    from fitroom.errors import FitroomError

    result, error, text = answer
    if error is not None:
        return RuntimeError(f"{type(error).__name__}: {error}"), text
    what = f"The result cannot be handed back ({type(problem).__name__}: {problem})"
    return FitroomError(what, received=f"{type(result).__name__}", hint="return numbers, arrays or paths"), text


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
