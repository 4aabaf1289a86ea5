"""Steps recorded at two sizes, drawn as lines."""

from __future__ import annotations

import pytest

from fitroom.estimator.profiler_seams import Event
from fitroom.estimator.replay import Replay, largest
from fitroom.estimator.tape import Recorded, Tape, fixed, scaled

KIB = 1024


def step(batch: int, *, temp: bool = False, release: bool = True) -> list[Event]:
    """An activation that grows, a gradient that does not, and a variable whose value is replaced."""
    moves: list[tuple[str, int, int, str, str]] = [
        ("take", 1, 64 * KIB * batch, "layer/Relu", "output"),
        ("take", 2, 256 * KIB, "gradient_tape/layer/MatMul", "output"),
        *([("take", 3, 512 * KIB, "layer/Conv", "temp"), ("give", 3, 512 * KIB, "", "")] if temp else []),
        ("take", 4, 128 * KIB, "adam/Sub", "output"),
        ("give", 9, 128 * KIB, "", ""),  # the variable's old value
        *([("give", 2, 256 * KIB, "", ""), ("give", 1, 64 * KIB * batch, "", "")] if release else []),
    ]
    in_use, found = 128 * KIB, []
    for time, (kind, place, size, op, role) in enumerate(moves):
        in_use += size if kind == "take" else -size
        found.append(Event(time, kind, place, size, in_use, op, role))
    return found


def replay(tape: Tape, batch: int = 8) -> Replay:
    return Replay(fixed([Event(0, "take", 9, 128 * KIB, 128 * KIB, "weight", "")]), [Recorded(batch, [tape])])


def test_what_grows_with_the_batch_grows_and_what_does_not_stays() -> None:
    tape = scaled(step(4), 4, step(8), 8)
    assert [request.line for request in tape.requests[:2]] == [(0.0, 64.0 * KIB), (256.0 * KIB, 0.0)]
    assert tape.base == 128 * KIB
    assert tape.in_use(100).max() == (128 + 6400 + 256 + 128) * KIB
    assert tape.in_use(1).max() == (128 + 64 + 256 + 128) * KIB


def test_a_variable_s_new_value_takes_the_place_of_the_old() -> None:
    tape = scaled(step(4), 4, step(8), 8)
    assert tape.in_use(8)[-1] == tape.base
    assert [(tape.requests[new].op, tape.requests[old].role) for new, old in tape.stays.items()] == [
        ("adam/Sub", "resident")
    ]


def test_a_workspace_of_larger_batches_only_is_there_above_the_smaller_size() -> None:
    tape = scaled(step(4), 4, step(8, temp=True), 8)
    assert tape.in_use(4).max() == scaled(step(4), 4, step(8), 8).in_use(4).max()
    assert tape.in_use(5).max() == (128 + 5 * 64 + 256 + 512) * KIB
    assert tape.in_use(64).max() == (128 + 64 * 64 + 256 + 512) * KIB  # and no larger there


def test_what_has_no_name_is_matched_by_its_rank() -> None:
    def block(size: int) -> list[Event]:
        return [Event(0, "take", 1, 256, 256), Event(1, "take", 2, size, 256 + size)]

    tape = scaled(block(1000 * KIB), 4, block(1800 * KIB), 8)
    assert tape.requests[1].line == (200.0 * KIB, 200.0 * KIB)


def test_the_size_s_own_recording_is_taken() -> None:
    small, large = scaled(step(2), 2, step(4), 4), scaled(step(4), 4, step(8, temp=True), 8)
    both = Replay(fixed([]), [Recorded(4, [small]), Recorded(8, [large])])
    assert both.highest(3)[0] is small
    assert both.highest(5)[0] is large
    assert both.highest(1000)[0] is large


def test_the_allocator_takes_no_less_than_the_tensors() -> None:
    found = replay(scaled(step(4), 4, step(8), 8))
    assert found.peak(64) >= found.tensors(64)


def test_memory_in_pieces_may_not_do() -> None:
    """Two of 6 MiB, one after the other, and one of 9 when they are gone: 14 MiB are there, in regions of 8 and 6."""
    mib = 1024 * KIB
    events = [
        Event(1, "take", 1, 6 * mib, 6 * mib, "one", "output"),
        Event(2, "take", 2, 6 * mib, 12 * mib, "two", "output"),
        Event(3, "give", 1, 6 * mib, 6 * mib),
        Event(4, "give", 2, 6 * mib, 0),
        Event(5, "take", 3, 9 * mib, 9 * mib, "three", "output"),
        Event(6, "give", 3, 9 * mib, 0),
    ]
    found = Replay(fixed([]), [Recorded(8, [fixed(events)])])
    assert found.tensors(1) == 12 * mib
    assert not found.runs_in(14 * mib, 1)
    assert found.runs_in(64 * mib, 1)
    assert not found.runs_in(11 * mib, 1)


def test_of_equally_large_requests_as_many_are_kept_as_asked_for() -> None:
    events = [Event(place, "take", place, KIB, place * KIB) for place in range(1, 11)]
    events += [Event(10 + place, "give", place, KIB, (10 - place) * KIB) for place in range(1, 11)]
    tape = scaled(events, 4, events, 8)
    kept = tape.large(8, 3)
    assert len(kept) == 6  # each is taken and given back
    assert len({request for request, _, _ in kept}) == 3


@pytest.mark.parametrize(
    ("peaks", "expected"),
    [
        ({4: 40, 8: 80, 16: 160, 32: 320}, (0, 0)),
        ({4: 40, 8: 80, 16: 160, 32: 500}, (16, 32)),
        ({4: 40, 8: 80, 16: 160, 32: 500, 24: 240}, (24, 32)),
        ({4: 40, 8: 80, 16: 160, 32: 500, 24: 420}, (16, 24)),
        ({4: 400, 8: 800, 16: 200, 32: 400}, (8, 16)),  # less is a jump, too
        ({4: 40, 8: 100, 16: 160, 32: 500}, (16, 32)),  # the greatest one
        ({4: 40, 8: 80}, (0, 0)),
    ],
)
def test_a_jump_is_between_two_sizes(peaks: dict[int, int], expected: tuple[int, int]) -> None:
    from fitroom.estimator.climbing import jump

    assert jump(peaks) == expected


def test_the_largest_that_runs() -> None:
    assert largest(lambda size: size <= 37, 1000) == 37
    assert largest(lambda size: False, 1000) == 0
    assert largest(lambda size: True, 1000) == 1000
