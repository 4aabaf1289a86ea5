from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitroom.core import Budget, Plan, Remedy
from fitroom.core.noun import Noun
from fitroom.errors import SchemaError
from tests.strategies import NOUNS, plans, remedies

nouns = st.one_of(*NOUNS.values())


def test_every_noun_has_a_strategy() -> None:
    assert set(NOUNS) == set(Noun.__subclasses__())


@given(nouns)
def test_a_noun_survives_the_round_trip(noun: Noun) -> None:
    text = noun.to_json()
    assert "\n" not in text
    assert type(noun).from_json(text) == noun


@given(nouns)
def test_a_noun_cannot_be_changed(noun: Any) -> None:
    for field in dataclasses.fields(noun):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(noun, field.name, None)


@given(nouns, st.text(min_size=1))
def test_an_unknown_field_is_refused(noun: Noun, name: str) -> None:
    values = json.loads(noun.to_json())
    if name in values:
        return
    with pytest.raises(SchemaError, match="Unknown field"):
        type(noun).from_json(json.dumps({**values, name: 1}))


@given(nouns)
def test_another_version_is_refused(noun: Noun) -> None:
    text = noun.to_json().replace(f"/{type(noun).__name__}/1", f"/{type(noun).__name__}/99", 1)
    with pytest.raises(SchemaError, match=r"schema .*/99"):
        type(noun).from_json(text)


@given(nouns, st.data())
def test_a_wrong_value_is_refused_by_the_name_of_its_field(noun: Noun, data: st.DataObject) -> None:
    values = json.loads(noun.to_json())
    name = data.draw(st.sampled_from(sorted(set(values) - {"schema"})))
    with pytest.raises(SchemaError, match=name):
        type(noun).from_json(json.dumps({**values, name: {"no": ["such", "thing"]}}))


@given(st.text() | st.recursive(st.none() | st.booleans() | st.integers(), st.lists).map(json.dumps))
def test_any_text_is_a_noun_or_a_schema_error(text: str) -> None:
    for cls in NOUNS:
        with pytest.raises(SchemaError):
            cls.from_json(text)


def test_one_noun_is_not_another() -> None:
    with pytest.raises(SchemaError, match="fitroom/Plan/1"):
        Plan.from_json(Remedy("micro_batch").to_json())


@pytest.mark.parametrize("text", ['{"schema": "fitroom/Budget/1"}', "[]", "nonsense", "", "[" * 100_000])
def test_what_is_not_a_budget_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        Budget.from_json(text)


def test_an_impossible_budget_is_refused_when_read() -> None:
    text = Budget(1, "CPU:0", "pocket", True, "asked").to_json().replace('"mib":1', '"mib":0')
    with pytest.raises(SchemaError, match="at least 1 MiB"):
        Budget.from_json(text)


@given(plans)
def test_a_plan_fits_exactly_when_its_worst_case_does(plan: Plan) -> None:
    if plan.footprint is None or plan.budget is None:
        assert plan.fits is None
    else:
        assert plan.fits == (plan.is_placed and plan.footprint.worst <= plan.budget.bytes)


@given(st.lists(remedies, min_size=1, max_size=4).map(tuple))
def test_one_inexact_remedy_makes_the_plan_inexact(chosen: tuple[Remedy, ...]) -> None:
    assert Plan(chosen).exact == (not any(not remedy.exact for remedy in chosen))
    assert str(Plan(chosen)) == ", ".join(str(remedy) for remedy in chosen)
