"""The registry of causes: complete, documented, and as good as its word."""

from __future__ import annotations

import pytest

from fitroom.core import Cause, Resource
from fitroom.diagnosers import CAUSES
from fitroom.diagnosers.cause_file import CauseFile
from fitroom.diagnosers.facts import Facts
from fitroom.leaks import CAUSES as LEAKS
from fitroom.leaks.cause import LeakFile
from fitroom.leaks.facts import Facts as LeakFacts
from fitroom.leaks.happenings import Happenings
from fitroom.leaks.trends import Trend


def test_every_cause_has_one_file() -> None:
    leaks = [one.CAUSE.value for one in LEAKS if one.CAUSE is not Cause.RETRACING]  # which a log tells of, too
    assert sorted([one.CAUSE.value for one in CAUSES] + leaks) == sorted(cause.value for cause in Cause)


@pytest.mark.parametrize("one", LEAKS, ids=lambda one: one.CAUSE.value)
def test_a_leak_is_not_found_without_facts(one: LeakFile) -> None:
    assert (
        list(one.find(LeakFacts((), (), Happenings(), trends=dict.fromkeys(("device", "heap", "rss"), Trend(False)))))
        == []
    )


@pytest.mark.parametrize("one", (*CAUSES, *LEAKS), ids=lambda one: one.CAUSE.value)
def test_a_page_says_what_it_is_how_to_recognise_it_and_what_to_do(one: CauseFile | LeakFile) -> None:
    parts = one.PAGE.text.split("\n\n")
    assert [part.split(":")[0] for part in parts] == ["What it is", "How to recognise it", "What to do"]
    assert one.PAGE.code == one.CAUSE.value


@pytest.mark.parametrize("one", CAUSES, ids=lambda one: one.CAUSE.value)
@pytest.mark.parametrize("resource", Resource)
def test_clues_and_advice_do_without_facts(one: CauseFile, resource: Resource) -> None:
    facts = Facts(resource, "", True, "")
    assert all(clue.points >= 0 for clue in one.clues(facts))
    assert all(advice.what for advice in one.advice(facts))
    assert all(one.futile(facts))
