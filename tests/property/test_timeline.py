"""Timelines: however many points, they stay small, and no peak is lost."""

from __future__ import annotations

import functools
import json
import math
import pickle
import sys
import threading
from collections.abc import Iterator
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


HEAD = '{"schema":"fitroom/timeline/1"}\n'


@given(st.recursive(st.none() | st.floats() | st.integers() | st.text(max_size=3), st.lists, max_leaves=4), st.data())
def test_a_line_that_makes_no_sense_is_skipped(strange: object, data: st.DataObject) -> None:
    line = {"t": [5.0, 6.0], "n": 2, "v": {"rss": [1.0, 2.0, 2]}}
    place = data.draw(st.sampled_from(["t", "n", "v", "rss", "whole"]))
    if place == "rss":
        line["v"] = {"rss": strange}
    else:
        line[place] = strange
    text = json.dumps(strange if place == "whole" else line)
    with TemporaryDirectory() as folder:
        path = Path(folder) / timeline_file.NAME
        path.write_text(HEAD + '{"t":1,"v":{"rss":7}}\n' + text + "\n" + '{"t":9,"v":{"rss":8}}\n')
        spans = list(timeline_file.read(path))
    assert spans[0].points >= 1
    assert functools.reduce(Span.merged, spans).peak("rss") is not None
    assert all(math.isfinite(one.last - one.first) for one in spans)


@pytest.fixture
def quick_turns() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_a_timeline_can_be_looked_at_while_it_grows(quick_turns: None) -> None:
    timeline, points = Timeline(64), 60_000

    def grow() -> None:
        for moment in range(points):
            timeline.add(point(moment, {"rss": moment}))

    thread = threading.Thread(target=grow)
    thread.start()
    seen = 0
    while thread.is_alive():
        spans = list(timeline)
        assert sum(one.points for one in spans) >= seen, "points were on their way from one size to the next"
        seen = sum(one.points for one in spans)
    thread.join()
    assert timeline.peak("rss") == points - 1


def value(moment: int) -> float:
    """No two points alike, and large ones anywhere."""
    return (moment * 2_654_435_761) % (1 << 32) / 7


@pytest.mark.parametrize("points", [50_000, pytest.param(1_000_000, marks=pytest.mark.chaos)])
def test_a_million_points_stay_small_in_memory_and_on_disk(tmp_path: Path, points: int) -> None:
    path = tmp_path / timeline_file.NAME
    file, largest = TimelineFile(path), 0
    for moment in range(points):
        file.add(point(moment, {"rss": value(moment)}))
        if moment % 97 == 0:
            largest = max(largest, path.stat().st_size)
    file.close()
    assert len(file.timeline) < 1800
    assert len(pickle.dumps(list(file.timeline))) < 200_000
    assert largest < 400_000
    for spans in (list(timeline_file.read(path)), list(file.timeline)):
        begin = 0
        for span in spans:  # each point is in its place, and each span has the very peak of its own
            assert (span.first, span.last) == (begin, begin + span.points - 1)
            assert span.peak("rss") == max(map(value, range(begin, begin + span.points)))
            begin += span.points
        assert begin == points
        assert [span.points for span in spans[-100:]] == [1] * 100
