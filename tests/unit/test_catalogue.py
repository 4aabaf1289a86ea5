"""GPUs by name, and what TensorFlow gets of them."""

from __future__ import annotations

import pytest

from fitroom.devices.catalogue import CARDS, find
from fitroom.devices.gpu import Gpu, GpuProcess
from fitroom.devices.meter import smallest
from fitroom.errors import UsageError
from fitroom.units import MIB

# "Created device … with N MB memory", as people posted it in public files.
POSTED = {
    "T4": 13757,
    "V100 16GB": 14648,
    "P100": 15405,
    "RTX 2080 Ti": 9454,
    "RTX 3080": 8056,
    "RTX 3090": 22289,
    "A100 40GB": 38482,
    "A100 80GB": 79197,
}


@pytest.mark.parametrize("name", POSTED)
def test_what_tensorflow_gets_is_what_people_saw(name: str) -> None:
    assert find(name).usable / MIB == pytest.approx(POSTED[name], rel=0.011)


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("rtx3090", "RTX 3090"),
        ("NVIDIA GeForce RTX 2080 Ti", "RTX 2080 Ti"),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB"),
        ("Tesla V100-PCIE-16GB", "V100 16GB"),
        ("a100", "A100 40GB"),  # the smaller one
        ("t4", "T4"),
        ("RTX 3080", "RTX 3080"),
        ("rtx 3080 12gb", "RTX 3080 12GB"),
        ("3090", "RTX 3090"),
        ("a6000", "RTX A6000"),
        ("T4 16GB", "T4"),
        ("RTX 4060 Ti", "RTX 4060 Ti 8GB"),
    ],
)
def test_names_as_people_write_them(typed: str, name: str) -> None:
    assert find(typed).name == name


@pytest.mark.parametrize(("typed", "near"), [("RTX 3909", "RTX 3090"), ("A1000", "A100")])
def test_an_unknown_name_is_answered_with_those_that_are_close(typed: str, near: str) -> None:
    with pytest.raises(UsageError, match=near):
        find(typed)


def test_a_training_has_what_tensorflow_gets_of_the_smallest_card_less_what_others_hold() -> None:
    large = Gpu(0, "A100", 40960 * MIB, 0, (8, 0))  # full: TensorFlow has taken it all
    shared = Gpu(1, "T4", 15360 * MIB, 0, (7, 5), processes=(GpuProcess(7, "other", 4096 * MIB),))
    assert smallest([]) == 0
    assert smallest([large]) / MIB == pytest.approx(38482, rel=0.02)
    assert smallest([large, shared]) / MIB == pytest.approx(13757 - 4096, rel=0.02)


def test_every_card_is_found_by_its_own_name() -> None:
    for card in CARDS:
        assert find(card.name) is card
        assert 0 < card.usable < card.mib * MIB
