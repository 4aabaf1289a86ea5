"""When the heap is looked at."""

from __future__ import annotations

from fitroom.leaks.counters import Counters
from fitroom.leaks.happenings import Happenings
from fitroom.leaks.looking import Looking
from fitroom.leaks.trends import Trend

STILL = {name: Trend(False) for name in ("device", "heap", "rss")}


def test_looks_that_have_cost_enough_become_seldom_but_do_not_end() -> None:
    looking, reader = Looking(Happenings()), Counters()
    for number in range(1, 7):
        looking.look(number * 10, number * 1.0, reader, STILL, None)
    looking.spent, looking._took = 100.0, 0.3  # however busy the machine is
    assert not looking.is_due(10_000, 11.0, suspicious=True)
    assert not looking.is_due(10_000, 12.0, suspicious=False)
    assert looking.is_due(10_000, 12.0, suspicious=True)
    looking.look(10_000, 12.0, reader, STILL, None)
    looking._took = 0.3
    assert not looking.is_due(20_000, 23.0, suspicious=True)
    assert looking.is_due(20_000, 24.0, suspicious=True)


def test_looks_that_take_long_are_few_from_the_second_on() -> None:
    looking, reader = Looking(Happenings()), Counters()
    assert looking.is_due(10, 1.0, suspicious=True)
    looking.look(10, 1.0, reader, STILL, None)
    looking.spent = looking._took = 2.5  # on a large heap
    assert not looking.is_due(100, 1.9, suspicious=True)
    assert not looking.is_due(200, 20.0, suspicious=True)
    assert looking.is_due(200, 40.0, suspicious=True)  # long after the last
    looking.spent = looking._took = 0.3
    assert looking.is_due(100, 1.9, suspicious=True)
