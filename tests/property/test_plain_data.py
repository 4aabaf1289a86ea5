"""What callbacks remember comes back as it was."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from fitroom.training.plain_data import NotPlain, decode, encode

scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=10))
numbers = st.one_of(
    st.floats(width=32).map(np.float32), st.integers(-(2**31), 2**31 - 1).map(np.int32), st.booleans().map(np.bool_)
)
arrays = arrays_of.arrays(
    st.sampled_from([np.float32, np.int64, np.bool_]), arrays_of.array_shapes(min_side=0, max_side=3)
)
values = st.recursive(
    st.one_of(scalars, numbers, arrays),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.one_of(st.text(max_size=5), st.integers()), inner, max_size=4),
        st.sets(st.integers(), max_size=4),
    ),
    max_leaves=10,
)


def same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(one, other) for one, other in zip(a, b, strict=True))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return a == b or (a != a and b != b)


@given(values)
def test_what_is_written_down_is_read(value: Any) -> None:
    found: list[Any] = []
    text = json.dumps(encode(value, found))
    assert same(decode(json.loads(text), found), value)


@pytest.mark.parametrize("value", [object(), len, [open], {"a": lambda: None}, np.array([object()]), b"bytes"])
def test_what_could_run_or_is_unknown_is_not_plain(value: Any) -> None:
    with pytest.raises(NotPlain):
        encode(value, [])


def test_what_holds_itself_is_not_plain() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(NotPlain):
        encode(value, [])
