"""Memory that is about to run out is told from memory that is well used."""

from __future__ import annotations

from fitroom.devices.limits import ADDRESS_SPACE, Use
from fitroom.supervisor.foresight import Foresight


def first_alarm(used: list[int], what: str = "the machine") -> int | None:
    foresight = Foresight()
    for number, one in enumerate(used):
        if foresight.look([Use(what, 1000, one)], number * 0.25) is not None:
            return number
    return None


def test_fast_growth_near_the_limit_is_an_alarm() -> None:
    alarm = first_alarm(list(range(500, 1000, 20)))
    assert alarm is not None
    assert 500 + alarm * 20 < 960, "while there is time"


def test_steady_use_near_the_limit_is_none() -> None:
    assert first_alarm([970] * 40) is None
    assert first_alarm([960, 955, 965] * 20) is None


def test_slow_growth_is_none_until_it_gets_there() -> None:
    assert first_alarm(list(range(900, 980))) is None


def test_fast_growth_far_from_the_limit_is_none() -> None:
    assert first_alarm(list(range(0, 800, 100))) is None


def test_a_limit_that_gives_an_error_first_is_none() -> None:
    assert first_alarm(list(range(500, 1000, 20)), ADDRESS_SPACE) is None
