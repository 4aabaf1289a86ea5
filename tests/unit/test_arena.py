"""The allocator as arithmetic."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitroom.estimator.arena import Arena, ArenaFull
from fitroom.units import MIB


def test_requests_are_rounded_up() -> None:
    arena = Arena()
    arena.take(1)
    assert arena.in_use == 256
    arena.take(257)
    assert arena.in_use == 256 + 512


def test_a_chunk_less_than_twice_the_request_is_handed_out_whole() -> None:
    arena = Arena()
    arena.take(int(1.5 * MIB))  # of a first region of two
    assert arena.in_use == 2 * MIB


def test_a_chunk_with_much_to_spare_is_split_all_the_same() -> None:
    arena = Arena()
    arena.take(300 * MIB)  # of a region of 512
    assert arena.in_use == 300 * MIB


def test_regions_double_and_never_merge() -> None:
    arena = Arena(14 * MIB)
    places = [arena.take(size * MIB) for size in (2, 4, 8)]
    for place in places:
        arena.give_back(place)
    assert arena.in_use == 0
    with pytest.raises(ArenaFull):  # fourteen are free, in three pieces
        arena.take(9 * MIB)
    assert arena.take(8 * MIB) is not None


def test_free_neighbours_merge() -> None:
    arena = Arena(2 * MIB)
    places = [arena.take(MIB // 2) for _ in range(4)]
    with pytest.raises(ArenaFull):
        arena.take(256)
    for place in (places[1], places[3], places[2]):
        arena.give_back(place)
    arena.take(3 * MIB // 2)
    assert arena.in_use == 2 * MIB
    assert arena.peak == 2 * MIB


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 3 * MIB)), max_size=200))
def test_chunks_never_overlap_and_nothing_is_lost(moves: list[tuple[bool, int]]) -> None:
    arena, held = Arena(64 * MIB), {}
    for takes, size in moves:
        if takes or not held:
            try:
                chunk = arena.take(size)
            except ArenaFull:
                continue
            held[chunk] = size
        else:
            arena.give_back(held.popitem()[0])
        ends = sorted((chunk.place, chunk.place + size) for chunk, size in held.items())
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ends))
        assert arena.in_use >= sum(held.values())
    for chunk in held:
        arena.give_back(chunk)
    assert arena.in_use == 0
