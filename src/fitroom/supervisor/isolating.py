"""`fitroom.isolated`: a function in a process of its own, which gives all its memory back."""

from __future__ import annotations

import functools
import os
import selectors
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

from fitroom.core import RecordFile
from fitroom.devices import gpu
from fitroom.errors import DiedOfMemory, ProcessDied, UsageError
from fitroom.supervisor.child import Child, Ended
from fitroom.units import format_bytes

_PERIOD = 0.25  # seconds between two looks at the process
_MOMENT = 0.01


class RemoteTraceback(Exception):
    """Where an exception was raised in the other process; the cause of the one that is raised here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def isolated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Have a function run in a fresh process each time it is called: its memory is given back when it returns.

    Arguments, result and exceptions are handed over (by cloudpickle, so functions from a notebook work); what it
    prints appears as usual. In a loop of trainings nothing is left behind from one to the next.

    Args:
        function: any function; what it closes over is copied.

    Returns:
        A function with the same arguments and results.

    Raises:
        UsageError: if this is no function, or what it is given cannot be handed over.
        ProcessDied: if the process dies; `DiedOfMemory`, which is also a `MemoryError`, if memory killed it.

    Example:
        >>> for units in (64, 128, 256):
        ...     score = fitroom.isolated(train)(units)
    """
    if not callable(function):
        raise UsageError("fitroom.isolated takes a function", received=repr(function), expected="def train(units): …")

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        _tell_of_gpu()
        return _result(function, _packed(function, args, kwargs))

    return call


def _tell_of_gpu() -> None:
    held = gpu.held(os.getpid())
    if held:
        warnings.warn(
            f"This process holds {format_bytes(held)} on the GPU itself, which the isolated one cannot use. "
            "Try: use TensorFlow in isolated functions only",
            stacklevel=3,
        )


def _packed(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    import cloudpickle

    try:
        packed: bytes = cloudpickle.dumps({"path": sys.path, "call": cloudpickle.dumps((function, args, kwargs))})
    except Exception as error:
        raise UsageError(
            "The function or its arguments cannot be handed to another process",
            received=f"{type(error).__name__}: {error}",
            hint="open files, models and datasets inside the function",
        ) from error
    return packed


def _result(function: Callable[..., Any], packed: bytes) -> Any:
    import pickle

    (their_input, ours), (our_input, theirs) = os.pipe(), os.pipe()
    arguments = ["-m", "fitroom.supervisor.isolated_side", str(their_input), str(theirs)]
    try:
        child = Child(arguments, dict(os.environ), (their_input, theirs))
    finally:
        os.close(their_input)
        os.close(theirs)
    threading.Thread(target=_send, args=(ours, packed), daemon=True).start()
    try:
        answer, ended = _wait(child, our_input)
    except BaseException:  # Ctrl-C: the process is of no use to anyone
        child.send(signal.SIGKILL)
        raise
    finally:
        os.close(our_input)
    if not answer:
        raise _died(getattr(function, "__name__", "the function"), ended)
    result, error, text = pickle.loads(answer)
    if error is not None:
        raise error from RemoteTraceback(text)
    return result


def _send(descriptor: int, packed: bytes) -> None:
    try:
        with os.fdopen(descriptor, "wb") as pipe:
            pipe.write(packed)
    except OSError:  # it died before it had read all: its exit code tells
        return


def _wait(child: Child, descriptor: int) -> tuple[bytes, Ended]:
    """What the process answers, and how it ends."""
    answer = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            ended = child.poll()
            if selector.select(_PERIOD if ended is None else 0):
                content = os.read(descriptor, 1 << 20)
                if not content:
                    break
                answer += content
            elif ended is not None:  # a process that it left behind holds the pipe
                break
    while (ended := child.poll()) is None:
        time.sleep(_MOMENT)
    return bytes(answer), ended


def _died(name: str, ended: Ended) -> ProcessDied:
    how = f"signal {-ended.code} ({signal.strsignal(-ended.code)})" if ended.code < 0 else f"exit code {ended.code}"
    if ended.death is not None:
        if record := os.environ.get("FITROOM_RECORD"):
            RecordFile(record).append("isolated_death", of=name, code=ended.code, evidence=ended.death.evidence)
        return DiedOfMemory(
            f"The process of {name} died of memory",
            received=f"{how}; {ended.death.evidence}",
            hint="fitroom.guard(model, budget=…) inside it, so that it keeps to a limit",
        )
    return ProcessDied(f"The process of {name} ended without a result", received=how)
