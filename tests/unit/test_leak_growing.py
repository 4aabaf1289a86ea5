"""What the user's code has a name for, and is more from walk to walk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from fitroom.leaks import holders
from fitroom.leaks.census import Census, Named
from fitroom.leaks.facts import Held
from fitroom.leaks.growing import Growing
from fitroom.leaks.scene import Scene
from fitroom.leaks.sizes import Size


def walks(identities: list[int], name: str = "gathered") -> list[Held]:
    """What is found of one variable whose list was this one, walk after walk, and larger each time."""
    growing, found = Growing(), ()
    for number, identity in enumerate(identities):
        arrays = {(1, name): Named(Size(other=(number + 1) << 20), identity)}
        found = growing.take(Census(number * 10, {}, arrays, [], 0, 0), Counter(step=number * 10), Scene(None))
    return list(found)


@pytest.mark.parametrize(
    ("identities", "is_found"),
    [([7, 8, 7, 8], True), ([7, 7, 7, 7], False), ([0, 0, 0, 0], True), ([7, 7, 7, 9], True)],
)  # 0: an array
def test_a_list_that_stays_the_same_is_judged_by_its_length_only(identities: list[int], is_found: bool) -> None:
    gathered: list[Any] = []
    gathered = gathered + [1]  # noqa: RUF005 # the line that is looked for
    assert [held.name for held in walks(identities)] == ["gathered"] * is_found


def test_a_variable_that_is_set_to_something_larger_is_not_a_leak() -> None:
    stages = [Size(), Size()]
    assert len(stages) == 2
    assert walks([0, 0, 0, 0], "stages") == []


class Attention:
    maps: list[Any] = []  # noqa: RUF012
    by_name: dict[str, list[Any]] = {"first": []}  # noqa: RUF012


def test_an_attribute_of_a_class_is_named_after_it() -> None:
    found = holders.find(Attention.maps, Scene(None))
    assert found is not None
    assert (found.name, found.keys) == ("Attention.maps", ("maps",))
    nested = holders.find(Attention.by_name["first"], Scene(None))
    assert nested is not None
    assert nested.name == "Attention.by_name.first"


def batches() -> Iterator[list[int]]:
    given: list[int] = []
    while True:
        given.append(1)
        yield given


def test_a_variable_of_a_generator_that_waits_has_a_name() -> None:
    waiting = batches()
    thing = next(waiting)
    found = holders.find(thing, Scene(None))
    assert found is not None
    assert (found.name, found.scope and found.scope.owners) == ("given", ("batches",))


class Bank:
    def __init__(self) -> None:
        self.features: dict[int, list[bytes]] = {1: [], 2: [], 3: []}

    def add(self) -> None:
        for kept in self.features.values():
            kept.extend(bytes(20_000) for _ in range(4))


def test_lists_under_one_name_are_one_leak() -> None:
    bank, growing, found = Bank(), Growing(), ()
    before: dict[int, int] = {}
    for number in range(5):
        bank.add()
        lists = list(bank.features.values())
        lengths = {id(one): len(one) for one in lists}
        census = Census(number * 10, lengths, {}, [one for one in lists if id(one) in before], 0, 0)
        found, before = growing.take(census, Counter(step=number * 10), Scene(None)), lengths
    [held] = found
    assert (held.name, held.length, held.grown) == ("Bank.features", 60, 48)
    assert held.size.total >= 48 * 20_000
    assert str(held) == "Bank.features holds 60 elements, 48 more since it is watched"
