"""Where random numbers stand, written down and put back."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from fitroom.training import random_states


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    state = random_states.read_python()
    yield
    random_states.write_python(state)


def draws() -> list[float]:
    return [random.random(), random.gauss(0, 1), float(np.random.rand()), float(np.random.normal())]


@pytest.mark.parametrize("before", [0, 1, 700])
def test_what_is_packed_is_drawn_again(before: int) -> None:
    for _ in range(before):
        draws()
    state = random_states.packed()
    wanted = draws()
    draws()
    random_states.unpack(state)
    assert draws() == wanted


def test_a_generator_of_another_kind_is_left_alone() -> None:
    plain = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(3))
    try:
        state = random_states.packed()
        random_states.unpack(state)
        assert state.size == 0
        assert float(np.random.rand()) == float(np.random.Generator(np.random.PCG64(3)).random())
    finally:
        np.random.set_bit_generator(plain)
