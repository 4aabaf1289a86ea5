"""Everything that a script trains, guarded without a change to it: put in place as it imports what it trains with."""

from __future__ import annotations

import sys

from fitroom.training.imports import after_import
from fitroom.training.tracebacks import hide_our_frames

TYPE_CHECKING = False  # as in typing: every Python that a script starts imports this module

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def install(told: dict[str, Any]) -> None:
    """Guard every training of this process.

    Args:
        told: what the supervisor decided: the budget, the plan, what is allowed, and whether trainings of this process
            are followed, so that another can go on with them.
    """
    hide_our_frames()
    if told["follows"]:
        from fitroom.data import seeds

        after_import("random", _safely(lambda: seeds.seed_python(told["seed"])))
        after_import("numpy.random", _safely(lambda: seeds.seed_numpy(told["seed"])))
    after_import("numpy", _safely(_numpy))
    after_import("tensorflow", _safely(lambda: _tensorflow(told)))
    after_import("keras", _safely(lambda: _keras(told)))


def _safely(act: Callable[[], None]) -> Callable[[], None]:
    """Whatever goes wrong in it, the script's import has worked."""

    def then() -> None:
        try:
            act()
        except Exception as error:
            print(f"fitroom: does not guard this script ({type(error).__name__}: {error})", file=sys.stderr)

    return then


_logs: list[Any] = []  # the one, once there is something to tell


def _tell(kind: str, **data: Any) -> None:
    from fitroom.training.log import Log

    if not _logs:
        _logs.append(Log())
    _logs[0].tell(kind, **data)


def _numpy() -> None:
    from fitroom.training.array_files import map_what_does_not_fit

    map_what_does_not_fit(_tell)


def _tensorflow(told: dict[str, Any]) -> None:
    from fitroom.training import device_settings

    if told["budget_mib"] is not None:
        device_settings.hold(told["budget_mib"], _tell)


def _keras(told: dict[str, Any]) -> None:
    import keras

    if keras.config.backend() != "tensorflow":
        _tell("left_alone", what="the script", reason=f"the Keras backend is {keras.config.backend()}")
        return
    from fitroom.training import every_function, every_model

    if told["follows"]:
        _follow_trainings(told)
    every_model.install(lambda: _options(told))
    every_function.install(lambda: _options(told))


def _follow_trainings(told: dict[str, Any]) -> None:
    try:
        from fitroom.training import fits

        fits.install(told, _tell)
    except (ImportError, AttributeError) as error:  # another version of Keras: trainings are guarded all the same
        _tell("left_alone", what="trainings against a kill", reason=str(error))


def _options(told: dict[str, Any]) -> Any:
    from fitroom.training.options import Options
    from fitroom.units import MIB

    budget = told["budget_mib"]
    return Options.read(
        budget=None if budget is None else budget * MIB,
        allow=tuple(told["allow"]),
        plan=told["plan"],
        careful=told["slices"],
        hint=told["hint"],
    )
