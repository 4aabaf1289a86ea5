"""Where to cut, and what to compute again."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fitroom.steps import cutting
from fitroom.steps.cutting import Piece, Row

SIZES = st.integers(1, 1000)


@st.composite
def rows(draw: Any) -> list[Piece]:
    """A chain with skips: each piece takes what the one before it makes, and now and then something older."""
    pieces = []
    for number in range(draw(st.integers(1, 14))):
        size = draw(SIZES)
        older = draw(st.sets(st.integers(0, number - 1), max_size=2)) if number else set()
        keeps = {number: size} if draw(st.booleans()) else {}
        keeps |= {1000 + number: draw(SIZES)} if draw(st.booleans()) else {}
        uses = frozenset({number - 1, *older} if number else ())
        pieces.append(Piece({number: size}, uses, keeps, float(draw(SIZES)), draw(SIZES)))
    return pieces


@given(rows())
def test_parts_cover_everything_in_order(pieces: list[Piece]) -> None:
    for cut in Row(pieces).candidates():
        edges = [cut.parts[0].start, *(part.stop for part in cut.parts)]
        assert edges[0] == 0 and edges[-1] == len(pieces)
        assert all(one.stop == other.start for one, other in itertools.pairwise(cut.parts))
        assert not cut.parts[-1].is_recomputed
        assert 0 <= cut.work <= 1


@given(rows())
def test_the_most_is_never_more_than_plain(pieces: list[Piece]) -> None:
    most, plain = cutting.most(pieces), cutting.plain(pieces)
    assert most.kept <= plain.kept
    assert plain.work == 0 and not plain.recomputed


@given(rows(), st.integers(0, 100))
def test_a_goal_is_reached_where_it_can_be_for_less_work(pieces: list[Piece], percent: int) -> None:
    most, plain = cutting.most(pieces), cutting.plain(pieces)
    goal = most.kept + (plain.kept - most.kept) * percent // 100
    cut = cutting.least_work(pieces, goal)
    assert cut.kept <= goal
    assert cut.work <= most.work
    assert cutting.least_work(pieces, most.kept - 1).kept == most.kept


@given(rows())
@settings(max_examples=60)
def test_the_peak_aimed_at_is_kept(pieces: list[Piece]) -> None:
    row = Row(pieces)
    plain = row.candidates()[0].kept
    for share in (0.9, 0.6, 0.4):
        edges = row._edges(plain * share)
        if edges is not None:
            spans = list(itertools.pairwise(edges))
            assert row.cut(spans, set(spans)).kept <= plain * share


def chain(count: int, size: int = 100) -> list[Piece]:
    """Layers that keep what they make and twice as much inside."""
    return [Piece({n: size}, frozenset({n - 1} if n else ()), {n: size, 1000 + n: 2 * size}, 1.0) for n in range(count)]


def test_a_long_chain_keeps_about_its_root() -> None:
    plain, most = cutting.plain(chain(36)), cutting.most(chain(36))
    assert plain.kept == 36 * 300 + 2 * 100
    assert most.kept < 0.4 * plain.kept
    assert 3 <= len(most.recomputed) <= 12


def test_low_is_half_way_in_less_time() -> None:
    plain, most, half = (choose(chain(36)) for choose in (cutting.plain, cutting.most, cutting.half))
    assert most.kept < half.kept <= (plain.kept + most.kept) / 2
    assert half.work < 0.8 * most.work


def test_after_a_failure_it_is_well_below_plain() -> None:
    assert cutting.fewer(chain(36), goal=10**9).kept <= 0.75 * cutting.plain(chain(36)).kept
