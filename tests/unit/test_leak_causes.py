"""What a line of the user's makes again and again, and what fitroom made meanwhile."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from fitroom.leaks import dataset_in_loop, models_in_loop, predict_in_loop
from fitroom.leaks.counters import Counts
from fitroom.leaks.facts import Facts, Look
from fitroom.leaks.happenings import Happenings, Made
from fitroom.leaks.places import Place
from fitroom.leaks.trends import Trend
from fitroom.leaks.triage import Triage
from fitroom.units import KIB, MIB

LINE = Made("dataset", Place("train.py", 9))


def facts(
    made: int,
    ours: int = 0,
    kind: str = "dataset",
    each: float = 0.1 * MIB,
    calls: int = 0,
    clears: bool = False,
    our_kind: str = "function",
) -> Facts:
    """Four looks, with so many things made, or calls of predict, at each, and so much more for each of them."""
    happened, line = Happenings(), LINE._replace(kind=kind)
    happened.made[line] = 4 * made
    happened.calls["predict", LINE.place] = 4 * calls
    looks = []
    for number in range(4):
        counts = Counts(0, 0, int(number * each * (made + calls)), 0)
        times, called = Counter({line: (number + 1) * made}), Counter({"predict": (number + 1) * calls})
        fitrooms = Counter({our_kind: number * ours})
        looks.append(Look(number, number, called, times, {}, counts, counts, None, 0, 0, 0, fitrooms))
    return Facts(tuple(looks), (), happened, clears=clears)


@pytest.mark.parametrize(
    ("made", "ours", "is_named"), [(10, 0, True), (10, 1, True), (10, 10, False), (10, 100, False)]
)
def test_what_fitroom_may_have_left_behind_is_not_laid_on_the_user(made: int, ours: int, is_named: bool) -> None:
    assert [leak.place for leak in dataset_in_loop.find(facts(made, ours))] == [LINE.place] * is_named


@pytest.mark.parametrize(("our_kind", "is_named"), [("function", True), ("model", False), ("dataset", False)])
def test_the_functions_that_the_guard_makes_for_each_model_are_that_models(our_kind: str, is_named: bool) -> None:
    found = models_in_loop.find(facts(3, ours=6, kind="model", our_kind=our_kind))
    assert [leak.place for leak in found] == [LINE.place] * is_named


@pytest.mark.parametrize(("each", "is_named"), [(5 * KIB, True), (60 * KIB, True), (2 * MIB, False)])
def test_more_than_a_call_of_predict_makes_is_not_laid_on_it(each: float, is_named: bool) -> None:
    assert len(list(predict_in_loop.find(facts(0, each=each, calls=50)))) == is_named


@pytest.mark.parametrize(
    ("each", "clears", "is_named"),
    [(60 * KIB, False, True), (60 * KIB, True, False), (MIB, True, True)],
)
def test_the_little_that_a_cleared_session_leaves_is_no_leak(each: float, clears: bool, is_named: bool) -> None:
    assert len(list(models_in_loop.find(facts(3, kind="model", each=each, clears=clears)))) == is_named


@pytest.mark.parametrize(("gained", "is_over"), [(0, True), (MIB, False)])
def test_a_leak_that_stops_is_none_unless_acting_stopped_it(gained: int, is_over: bool) -> None:
    # GIVEN a leak of three MiB, against which something was done
    told: list[str] = []
    still = {name: Trend(False) for name in ("device", "heap", "rss")}
    seen = facts(10)
    reader: Any = SimpleNamespace(
        device_limit=None, read=lambda: seen.looks[-1].after, host_room=lambda: (100 * MIB, 200 * MIB)
    )
    triage = Triage(lambda kind, **_: told.append(kind))
    triage.judge(replace(seen, trends=still), reader, is_last=False)
    triage.helped(gained)
    # WHEN it grows no more
    triage.recheck(1000, still, reader)
    # THEN it was none, unless that gave back much of it
    assert told == ["leak", "leak_over"][: 1 + is_over]
