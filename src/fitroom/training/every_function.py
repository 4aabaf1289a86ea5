"""Every `tf.function` of a script that applies gradients, guarded as by `fitroom.step`.

Whether a function trains shows when it is traced: an optimizer's `apply` is called. Mostly its code tells before, by
the names that it uses, and is then traced once, for the guard. Where it does not, the first trace ends at `apply`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

_TRAINING_NAMES = {"apply_gradients", "minimize"}


class _Trains(BaseException):
    """Ends a trace: the function applies gradients. Passes through `except Exception`, which is not meant for it."""


class _Watch:
    """The function being traced, of which it is not known yet whether it trains."""

    traced: Any = None


def install(options: Callable[[], Any]) -> None:
    """Guard every function that applies gradients, with these options."""
    from fitroom.steps import graph_seams
    from fitroom.training import function_seams

    def call(function: Any, plain: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        mark = function_seams.mark_of(function)
        if mark is None:
            mark = _first_mark(graph_seams.code_of(function))
            if mark is _GUARD:
                mark = _guarded(function, options(), plain)
            function_seams.mark(function, mark)
        if mark is _LEAVE:
            return plain(*args, **kwargs)
        if mark is not _WATCH:
            return mark(*args, **kwargs)
        outer, _Watch.traced = _Watch.traced, function
        try:
            return plain(*args, **kwargs)
        except _Trains:
            pass
        finally:
            _Watch.traced = outer
        guarded = _guarded(function, options(), plain)
        function_seams.mark(function, guarded)
        return guarded(*args, **kwargs)

    def before_apply() -> None:
        if _Watch.traced is not None:
            raise _Trains

    function_seams.intercept_calls(call)
    function_seams.intercept_apply(before_apply)


_LEAVE, _WATCH, _GUARD = object(), object(), object()


def _first_mark(code: CodeType | None) -> Any:
    from fitroom.training import function_seams

    if code is None or function_seams.is_library(code):
        return _LEAVE
    return _GUARD if _TRAINING_NAMES & _names(code) else _WATCH


def _names(code: CodeType) -> set[str]:
    """The names that a function uses, and the functions inside it."""
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _guarded(function: Any, options: Any, plain: Callable[..., Any]) -> Any:
    from fitroom.training.functions import GuardedFunction

    return GuardedFunction(function, None, None, options, plain)
