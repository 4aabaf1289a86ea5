"""Hypothesis strategies for the nouns: one per noun, all of them in `NOUNS`."""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import strategies as st

from fitroom.core import (
    Advice,
    Budget,
    Cause,
    Diagnosis,
    Event,
    Evidence,
    Finding,
    Fitting,
    Fix,
    Footprint,
    LayerBytes,
    Parts,
    Place,
    Plan,
    Record,
    Remedy,
    Resource,
)  # fmt: skip
from fitroom.core.noun import Noun

counts = st.integers(0, 2**62)
words = st.text(max_size=30)
shares = st.floats(0, 1)
scalars = st.one_of(words, counts, st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none())

budgets = st.builds(
    Budget,
    mib=st.integers(1, 2**30),
    device=words,
    kind=st.sampled_from(["gpu", "pocket", "host"]),
    enforced=st.booleans(),
    origin=st.sampled_from(["asked", "free"]),
)
parts = st.builds(
    Parts, **dict.fromkeys(("weights", "optimizer", "gradients", "activations", "workspace", "data"), counts)
)
footprints = st.builds(
    Footprint,
    batch_size=st.integers(1, 10**6),
    parts=parts,
    how=st.sampled_from(["traced", "measured"]),
    band=shares,
    layers=st.lists(st.builds(LayerBytes, name=words, bytes=counts), max_size=3).map(tuple),
)
remedies = st.builds(
    Remedy,
    name=st.text(min_size=1, max_size=30),
    setting=st.one_of(st.none(), counts, words),
    exact=st.booleans(),
    saves_bytes=st.none() | counts,
    time_factor=st.floats(0.01, 100),
    needs_restart=st.booleans(),
)
plans = st.builds(
    Plan,
    remedies=st.lists(remedies, max_size=3).map(tuple),
    footprint=st.none() | footprints,
    budget=st.none() | budgets,
    reason=words,
    largest_batch=st.none() | counts,
    is_placed=st.booleans(),
)
places = st.builds(Place, name=words, bytes=counts, peak=counts, fits=st.booleans(), largest_batch=counts, note=words)
fittings = st.builds(
    Fitting,
    where=words,
    footprint=footprints,
    budget=st.none() | places,
    gpus=st.lists(places, max_size=3).map(tuple),
)
events = st.builds(Event, kind=words, time=st.floats(0, 1e11), data=st.dictionaries(words, scalars, max_size=3))
records = st.builds(Record, events=st.lists(events, max_size=4).map(tuple), torn=st.integers(0, 9))
advice = st.builds(Advice, what=words, effect=words, code=words)
lone_diagnoses = st.builds(
    Diagnosis,
    resource=st.sampled_from(Resource),
    cause=st.sampled_from(Cause),
    confidence=shares,
    evidence=st.lists(st.builds(Evidence, text=words, line=st.none() | st.integers(1, 9999)), max_size=3).map(tuple),
    wanted_bytes=st.none() | counts,
    tensor_shape=st.none() | st.lists(counts, max_size=4).map(tuple),
    fragmentation=st.none() | shares,
    why=st.lists(words, max_size=2).map(tuple),
    alternatives=st.lists(st.sampled_from(Cause), max_size=2).map(tuple),
    remedies=st.lists(remedies, max_size=2).map(tuple),
    advice=st.lists(advice, max_size=2).map(tuple),
    times=st.integers(1, 99),
)
diagnoses = st.builds(
    lambda first, others: dataclasses.replace(first, others=tuple(others)),
    lone_diagnoses,
    st.lists(lone_diagnoses, max_size=2),
)
spans = st.tuples(st.integers(0, 500), st.integers(500, 999))
fixes = st.builds(lambda span, text, safe: Fix(span[0], span[1], text, safe), spans, words, st.booleans())
findings = st.builds(
    Finding,
    rule=words,
    path=words,
    line=st.integers(1, 9999),
    column=st.integers(1, 200),
    message=words,
    fix=st.none() | fixes,
)

NOUNS: dict[type[Noun], st.SearchStrategy[Any]] = {
    Budget: budgets,
    Footprint: footprints,
    Remedy: remedies,
    Plan: plans,
    Record: records,
    Diagnosis: diagnoses,
    Finding: findings,
    Fitting: fittings,
}
