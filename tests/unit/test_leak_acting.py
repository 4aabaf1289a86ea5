"""What is done about a leak, and how often."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fitroom.core import Cause
from fitroom.leaks import acting
from fitroom.leaks.acting import Acting


def test_it_acts_again_only_after_twenty_times_what_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(acting.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(acting.gc, "collect", lambda: now.__setitem__(0, now[0] + 0.1))  # a tenth of a second
    leaks: list[Any] = [SimpleNamespace(cause=Cause.REFERENCE_CYCLES)]
    one = Acting()
    # GIVEN something that was done about a leak
    assert one.is_due(leaks)
    gain = one.act(leaks, between_trainings=False)
    assert gain is not None
    assert gain.seconds == pytest.approx(0.1)
    # THEN it is not done again at once
    now[0] += 1.9
    assert not one.is_due(leaks)
    now[0] += 0.2
    assert one.is_due(leaks)


def test_there_is_nothing_to_do_about_what_the_script_holds() -> None:
    leaks: list[Any] = [SimpleNamespace(cause=Cause.RETAINED_TENSORS)]
    assert not Acting().is_due(leaks)
