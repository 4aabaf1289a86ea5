"""Timelines: however many points, they stay small, and no peak is lost."""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fitroom.devices import timeline_file
from fitroom.devices.timeline import Doubling, Span, Timeline, point
from fitroom.devices.timeline_file import TimelineFile

numbers = st.floats(0, 1e15, allow_nan=False, allow_infinity=False)
measured = st.dictionaries(st.sampled_from(["rss", "host", "gpu0_use"]), numbers, max_size=3)


def check(spans: list[Span], raw: list[dict[str, float]]) -> None:
    """The spans hold all points, in order, each with its exact peak and its mean."""
    assert sum(span.points for span in spans) == len(raw)
    begin = 0
    for span in spans:
        inside = raw[begin : begin + span.points]
        assert (span.first, span.last) == (begin, begin + span.points - 1)
        begin += span.points
        assert set(span.figures) == {name for one in inside for name in one}
        for name, figure in span.figures.items():
            values = [one[name] for one in inside if name in one]
            assert figure.peak == max(values)
            assert figure.points == len(values)
            assert math.isclose(figure.mean, sum(values) / len(values), rel_tol=1e-9, abs_tol=1e-9)


@given(st.lists(measured, max_size=300), st.integers(2, 8))
def test_every_peak_is_in_the_span_that_it_happened_in(raw: list[dict[str, float]], per_size: int) -> None:
    timeline = Timeline(per_size)
    for moment, values in enumerate(raw):
        timeline.add(point(moment, values))
    check(list(timeline), raw)
    assert len(timeline) <= per_size * max(1, len(raw).bit_length())
    newest = timeline.newest
    assert newest is None or newest.last == len(raw) - 1
    for name in ("rss", "host"):
        assert timeline.peak(name) == max((one[name] for one in raw if name in one), default=None)


@given(st.lists(measured, max_size=200), st.integers(1, 6))
def test_what_only_grows_grows_slowly_and_keeps_every_peak(raw: list[dict[str, float]], per_size: int) -> None:
    thinned, spans = Doubling(per_size), []
    for moment, values in enumerate(raw):
        spans += [one for one in [thinned.add(point(moment, values))] if one is not None]
    spans += [one for one in [thinned.rest()] if one is not None]
    check(spans, raw)
    assert len(spans) <= per_size * (len(raw).bit_length() + 1)


@settings(max_examples=30)
@given(st.lists(measured, max_size=60), st.data())
def test_a_file_gives_back_what_was_measured(raw: list[dict[str, float]], data: st.DataObject) -> None:
    """Written in one go or in two, with a kill in between that tears its last line."""
    torn = data.draw(st.integers(0, len(raw)))
    with TemporaryDirectory() as folder:
        path = Path(folder) / timeline_file.NAME
        file = TimelineFile(path)
        for moment, values in enumerate(raw):
            if moment == torn:
                with path.open("a") as out:
                    out.write('{"t":1,"v":{"rs')
                file.close()
                file = TimelineFile(path)
            file.add(point(moment, values))
        file.close()
        check(list(timeline_file.read(path)), raw)


@pytest.mark.parametrize("points", [50_000, pytest.param(1_000_000, marks=pytest.mark.chaos)])
def test_a_million_points_stay_small_in_memory_and_on_disk(tmp_path: Path, points: int) -> None:
    path, peaks = tmp_path / timeline_file.NAME, {123: 9e9, points // 3: 7e9, points - 1: 8e9}
    file, largest = TimelineFile(path), 0
    for moment in range(points):
        file.add(point(moment, {"rss": peaks.get(moment, moment % 1000)}))
        if moment % 4000 == 0:
            largest = max(largest, path.stat().st_size)
    file.close()
    assert len(file.timeline) < 1800
    assert largest < 400_000
    spans = list(timeline_file.read(path))
    assert sum(span.points for span in spans) == points
    for moment, peak in peaks.items():
        assert next(one for one in spans if one.first <= moment <= one.last).peak("rss") == peak
    assert [span.points for span in spans[-100:]] == [1] * 100
