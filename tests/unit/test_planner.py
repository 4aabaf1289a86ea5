"""The planner: what keeps the math, fits, and takes the least time."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from fitroom.core import Budget, Footprint, Parts, Plan, Remedy
from fitroom.planner import choose
from fitroom.units import MIB

BUDGET = Budget(100, "GPU:0", "gpu", enforced=True, origin="asked")


def option(mib: float, time: float = 1.0, *names: str, exact: bool = True) -> Plan:
    footprint = Footprint(64, Parts(activations=int(mib * MIB)), "measured", 0.0)
    remedies = tuple(Remedy(name, exact=exact, time_factor=time ** (1 / len(names))) for name in names)
    return Plan(remedies, footprint)


def test_what_fits_as_it_is_is_left_alone() -> None:
    found = choose([option(90), option(50, 1.0, "recompute")], BUDGET)
    assert found.remedies == ()
    assert found.fits
    assert "fits as it is" in found.reason


def test_the_quickest_that_fits_is_taken() -> None:
    found = choose([option(300), option(90, 1.3, "recompute"), option(80, 1.1, "micro_batch")], BUDGET)
    assert str(found) == "micro_batch"
    assert [str(one) for one in found.alternatives] == ["recompute", "plain"]


def test_another_result_comes_after_every_one_that_is_the_same() -> None:
    found = choose([option(300), option(90, 1.9, "recompute"), option(80, 1.0, "mixed", exact=False)], BUDGET)
    assert str(found) == "recompute"
    assert "another result: mixed" in found.reason


def test_of_equally_quick_ones_the_simpler_is_taken() -> None:
    found = choose([option(300), option(60, 1.1, "micro_batch", "recompute"), option(90, 1.11, "micro_batch")], BUDGET)
    assert str(found) == "micro_batch"


def test_memory_in_pieces_is_not_taken_for_enough() -> None:
    plain = dataclasses.replace(option(90), is_placed=False)
    found = choose([plain, option(80, 1.3, "recompute")], BUDGET)
    assert str(found) == "recompute"
    assert "in pieces that are too small" in found.reason


def test_where_nothing_fits_the_smallest_is_named() -> None:
    found = choose([option(300), option(150, 1.3, "recompute"), option(200, 1.1, "micro_batch")], BUDGET)
    assert not found.fits
    assert "Nothing fits" in found.reason
    assert "150 MiB, with recompute" in found.reason


@given(
    st.lists(st.tuples(st.floats(1, 400), st.floats(1, 3), st.integers(1, 2), st.booleans()), max_size=6),
    st.floats(1, 400),
)
def test_no_better_plan_is_passed_over(others: list[tuple[float, float, int, bool]], plain: float) -> None:
    options = [option(plain)]
    options += [option(mib, time, *["r", "s"][:count], exact=exact) for mib, time, count, exact in others]
    found = choose(options, BUDGET)
    known = [dataclasses.replace(one, budget=BUDGET) for one in options]
    assert len(found.alternatives) == len(options) - 1
    if any(one.fits and one.exact for one in known):
        assert found.fits
        assert found.exact
        quickest = min(one.time_factor for one in known if one.fits and one.exact)
        assert found.time_factor <= quickest + 0.051
    else:
        assert bool(found.fits) == any(one.fits for one in known)
    assert choose(options, BUDGET) == found
