"""What a line of the user's makes again and again, and what fitroom made meanwhile."""

from __future__ import annotations

from collections import Counter

import pytest

from fitroom.leaks import dataset_in_loop
from fitroom.leaks.counters import Counts
from fitroom.leaks.facts import Facts, Look
from fitroom.leaks.happenings import Happenings, Made
from fitroom.leaks.places import Place
from fitroom.units import MIB

LINE = Made("dataset", Place("train.py", 9))


def facts(made: int, ours: int) -> Facts:
    """Four looks, with so many datasets and a MiB more at each."""
    happened = Happenings()
    happened.made[LINE] = 4 * made
    looks = []
    for number in range(4):
        counts = Counts(0, 0, number * MIB, 0)
        times = Counter({LINE: (number + 1) * made})
        looks.append(Look(number, number, Counter(), times, {}, counts, counts, None, 0, 0, 0, number * ours))
    return Facts(tuple(looks), (), happened)


@pytest.mark.parametrize(
    ("made", "ours", "is_named"), [(10, 0, True), (10, 1, True), (10, 10, False), (10, 100, False)]
)
def test_what_fitroom_may_have_left_behind_is_not_laid_on_the_user(made: int, ours: int, is_named: bool) -> None:
    assert [leak.place for leak in dataset_in_loop.find(facts(made, ours))] == [LINE.place] * is_named
