from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fitroom.steps.slicing import bounds
from fitroom.training.rungs import Sizes


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_bounds_cover_every_sample_once_in_slices_of_at_most_that_size(samples: int, size: int) -> None:
    cuts = bounds(samples, size)
    assert [index for start, stop in cuts for index in range(start, stop)] == list(range(samples))
    sizes = {stop - start for start, stop in cuts}
    assert max(sizes) <= size
    assert len(sizes) <= 2
    assert max(sizes) - min(sizes) <= 1


def learn(samples: int, need: object, free: int, batches: int = 3) -> tuple[Sizes, int]:
    """Run batches as the guard would, on a device that takes `need(size)` bytes; returns how often it ran out."""
    sizes, ooms = Sizes(), 0
    sizes.failed(samples)
    for _ in range(batches):
        start = 0
        while start < samples:
            rest = samples - start
            size = sizes.next(samples, rest, free) if sizes.learning else min(sizes.size or samples, rest)
            took = need(size)  # type: ignore[operator]
            if took > free:
                ooms += 1
                sizes.failed(size)
                start = 0
                continue
            if sizes.learning:
                sizes.seen(size, took)
            start += size
    return sizes, ooms


@given(st.integers(2, 1024), st.integers(0, 10**6), st.integers(10**3, 10**5), st.integers(0, 10**5), st.data())
def test_one_failure_is_enough_to_find_a_size_that_fits(
    samples: int, fixed: int, slope: int, later: int, data: st.DataObject
) -> None:
    # GIVEN a peak that is the larger of two lines, as real peaks are, up to 20 % above what small slices tell
    def need(size: int) -> int:
        return int(max(fixed + slope * size, slope * size * 1.15 + later))

    free = data.draw(st.integers(int(need(1) * 1.3), max(need(samples) - 1, int(need(1) * 1.3))))
    # WHEN it learns
    sizes, ooms = learn(samples, need, free)
    # THEN it does not run out again, and does not waste the device
    assert ooms == 0
    largest = max(size for size in range(1, samples + 1) if need(size) <= free)
    if not sizes.learning and largest < samples and free >= 3 * need(1):
        assert (sizes.size or samples) >= max(1, largest // 3)


def test_without_counters_sizes_are_halved() -> None:
    sizes = Sizes()
    sizes.failed(64)
    assert sizes.next(64, 64, None) == 31
    sizes.failed(31)  # learned, and too hopeful: half of it
    assert sizes.next(64, 64, None) == 7


def test_what_does_not_grow_with_the_size_does_not_hold_it_down() -> None:
    # GIVEN a workspace that takes half of what is free, whatever the size
    def need(size: int) -> int:
        return 45_000 + 1_000 * size

    sizes = Sizes()
    sizes.failed(256)
    done = 0
    for _ in range(8):
        size = sizes.next(256, 256 - done, 80_000, most=4_000)
        assert need(size) <= 80_000
        sizes.seen(size, need(size))
        done += size
    # THEN slices are more than single samples
    assert not sizes.learning
    assert (sizes.size or 0) >= 8


def test_small_slices_lead_to_the_whole_batch_where_that_fits() -> None:
    sizes = Sizes()
    sizes.learn()
    done = 0
    while done < 64:
        size = sizes.next(64, 64 - done, 10**9)
        sizes.seen(size, size * 1000)
        done += size
    assert sizes.fits_whole(64)


def test_a_planned_size_is_not_taken_for_a_whole_batch() -> None:
    assert not Sizes(size=128).fits_whole(26)  # a short last batch says nothing of the others
