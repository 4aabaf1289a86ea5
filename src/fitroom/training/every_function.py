"""Every `tf.function` of a script that applies gradients, guarded as by `fitroom.step`.

Whether a function trains shows when it is traced: an optimizer's `apply` is called. Mostly its code tells before, by
the names that it and its helpers use. Where it does not, its first call runs as it is, and it is guarded from then on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

_TRAINING_NAMES = {"apply_gradients", "apply", "minimize"}
_DEPTH = 4  # of helpers that call helpers


class _Watch(threading.local):
    """The functions being called, of which it is not known yet whether they train."""

    def __init__(self) -> None:
        self.trains: list[bool] = []


def install(options: Callable[[], Any]) -> None:
    """Guard every function that applies gradients, with these options."""
    from fitroom.training import function_seams

    watch = _Watch()

    def call(function: Any, plain: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        mark = function_seams.mark_of(function)
        if mark is None:
            mark = _first_mark(function)
            if mark is _GUARD:
                mark = _guarded(function, options(), plain)
            function_seams.mark(function, mark)
        if mark is _LEAVE:
            return plain(*args, **kwargs)
        if mark is not _WATCH:
            return mark(*args, **kwargs)
        watch.trains.append(False)
        try:
            return plain(*args, **kwargs)
        finally:
            if watch.trains.pop():
                function_seams.mark(function, _guarded(function, options(), plain))

    def before_apply() -> None:
        if watch.trains:
            watch.trains[-1] = True

    function_seams.intercept_calls(call)
    function_seams.intercept_apply(before_apply)


def trains(function: Any) -> bool | None:
    """Whether a `tf.function` applies gradients, by its code; None where that does not tell."""
    mark = _first_mark(function)
    return None if mark is _WATCH else mark is _GUARD


_LEAVE, _WATCH, _GUARD = object(), object(), object()


def _first_mark(function: Any) -> Any:
    from fitroom.steps import graph_seams
    from fitroom.training import function_seams

    own = function_seams.users_own(function)
    code = graph_seams.code_of(own)
    if code is None or function_seams.is_library(code):
        return _LEAVE
    is_wrapped = own is not function.python_function
    python = own if is_wrapped else function_seams.python_of(function)
    found = _names(python, function_seams.is_library, set(), _DEPTH)
    return _GUARD if found & _TRAINING_NAMES else _WATCH


def _names(function: Any, is_library: Callable[[CodeType], bool], seen: set[int], depth: int) -> set[str]:
    """The names that a function uses, and those of the functions that it can reach by name."""
    owner = getattr(function, "__self__", None)
    python = getattr(function, "__func__", function)
    if not isinstance(python, FunctionType) or id(python.__code__) in seen or is_library(python.__code__):
        return set()
    seen.add(id(python.__code__))
    names = _own_names(python.__code__)
    reached = _reached(python, owner, names) if depth else ()
    return names.union(*[_names(one, is_library, seen, depth - 1) for one in reached])


def _own_names(code: CodeType) -> set[str]:
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return set(code.co_names).union(*map(_own_names, inner))


def _reached(function: FunctionType, owner: Any, names: set[str]) -> Iterator[Any]:
    """The functions behind the names that a function uses: globals, what it closes over, its owner's methods."""
    from fitroom.training.function_seams import is_full

    cells = [cell.cell_contents for cell in function.__closure__ or () if is_full(cell)]
    values = [*(function.__globals__[name] for name in names if name in function.__globals__), *cells]
    for value in values:
        yield getattr(value, "python_function", value)
    # A method of an object: any of these objects', by its name alone.
    for value in [owner, *values]:
        for name in names if value is not None and not isinstance(value, (type, FunctionType)) else ():
            found = getattr(type(value), name, None)
            found = getattr(found, "python_function", found)
            if isinstance(found, FunctionType):
                yield MethodType(found, value)


def _guarded(function: Any, options: Any, plain: Callable[..., Any]) -> Any:
    from fitroom.training.functions import GuardedFunction

    return GuardedFunction(function, None, None, options, plain, is_asked_for=False)
