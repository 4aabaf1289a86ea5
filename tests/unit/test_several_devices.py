"""Several devices: what counts is the fullest one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from fitroom.core import Budget, Event, Footprint, Parts
from fitroom.devices import gpu, gpu_use, meter
from fitroom.devices.meter import Meter
from fitroom.estimator.footprints import Footprints, Names, Resident
from fitroom.estimator.replay import Replay
from fitroom.estimator.tape import Move, Recorded, Request, Tape, resident
from fitroom.steps import graph_seams, replicas, slicing
from fitroom.training.arguments import Arguments
from fitroom.training.summary import closing_line
from fitroom.units import GIB, MIB

# --- the meter ------------------------------------------------------------------------------------------------------


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, int]]:
    """Two cards, the second one fuller."""
    used = {"GPU:0": {"current": GIB, "peak": 2 * GIB}, "GPU:1": {"current": 3 * GIB, "peak": 4 * GIB}}
    monkeypatch.setattr(tf.config.experimental, "get_memory_info", lambda device: used[device])
    monkeypatch.setattr(gpu_use, "left_by_others", lambda number, own: [8 * GIB, 6 * GIB][number])
    return used


def test_the_fullest_card_counts(cards: dict[str, dict[str, int]]) -> None:
    meter = Meter("GPU:0", 10 * GIB, ("GPU:1",))
    assert (meter.current(), meter.peak(), meter.both()) == (3 * GIB, 4 * GIB, (3 * GIB, 4 * GIB))
    assert meter.free() == 3 * GIB, "the second card has 6 GiB left by others, and 3 of them in use"


def test_a_card_that_others_fill_counts_though_we_use_little_of_it(cards: dict[str, dict[str, int]]) -> None:
    cards["GPU:1"]["current"] = 0
    assert Meter("GPU:0", 10 * GIB, ("GPU:1",)).free() == 6 * GIB
    assert Meter("GPU:0", 10 * GIB).free() == 7 * GIB


def test_the_cards_that_train_are_the_ones_that_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: [f"{kind}:{number}" for number in range(4)])
    cards = [gpu.Gpu(0, "", size * GIB, size * GIB, (8, 0)) for size in (8, 16, 24, 32)]
    monkeypatch.setattr(gpu, "visible", lambda: tuple(cards))
    found = meter.find(None, ("/job:localhost/replica:0/task:0/device:GPU:2", "GPU:3"))
    assert found is not None
    assert (found.device, found.beside) == ("GPU:2", ("GPU:3",))
    assert 20 * GIB < found.limit < 24 * GIB
    assert meter.find(GIB) == Meter("GPU:0", GIB)


# --- budgets and footprints -------------------------------------------------------------------------------------------


def test_a_budget_is_each_gpus_and_shared_by_logical_cpus() -> None:
    assert Budget(1000, "GPU:0", "gpu", enforced=True, origin="asked").per_replica(4).mib == 1000
    assert Budget(1000, "CPU:0", "pocket", enforced=True, origin="asked").per_replica(4).mib == 250


def footprints(*devices: str) -> Footprints:
    """Steps in which every sample takes a MiB, and weights 8."""
    weights = (("dense/kernel", 8 * MIB),)
    step = Tape([Request("dense/MatMul", "output", (0.0, float(MIB)))], [Move(0, True), Move(0, False)], 8 * MIB)
    recorded = [Recorded(size, [step]) for size in (4, 8, 16)]
    return Footprints(
        replays={"training": Replay(resident(weights), recorded)},
        resident=Resident(weights, trained=8 * MIB),
        names=Names(["dense"], [], "data"),
        how="measured",
        band=0.0,
        replicas=devices,
    )


def test_a_replica_takes_its_share_all_the_weights_and_room_to_exchange() -> None:
    alone, shared = footprints(), footprints("GPU:0", "GPU:1")
    assert shared.at("training", 33).peak == alone.at("training", 17).peak + 8 * MIB
    assert shared.at("training", 33).batch_size == 33
    assert shared.at("training", 33).parts.exchange == 8 * MIB
    assert alone.at("training", 33).parts.exchange == 0


def test_the_largest_batch_is_as_many_shares() -> None:
    alone, shared = footprints(), footprints("GPU:0", "GPU:1", "GPU:2")
    assert shared.largest("training", 100 * MIB, 1 << 20) == 3 * alone.largest("training", 92 * MIB, 1 << 20)
    assert shared.fits("training", shared.largest("training", 100 * MIB, 1 << 20), 100 * MIB)


def test_slices_are_cut_within_each_share() -> None:
    shared = footprints("GPU:0", "GPU:1")
    size = shared.fitting_slice(64, 40 * MIB)
    assert 0 < size < 64
    assert shared.sliced(64, -(-64 // size)).peak <= 40 * MIB


def test_the_table_names_each_device() -> None:
    found = repr(Footprint(64, Parts(exchange=MIB), "measured", 0.06, replicas=("GPU:0", "GPU:1")))
    assert "batch 64, 32 on each of GPU:0, GPU:1" in found
    assert "exchange" in found


# --- shares -----------------------------------------------------------------------------------------------------------


def shares(*sizes: int) -> Any:
    return graph_seams.per_replica([tf.reshape(tf.range(size), (size, 1)) for size in sizes])


@pytest.mark.parametrize("sizes", [(8, 8), (9, 8), (5, 3, 4)])
@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_every_sample_is_in_one_slice_and_no_slice_is_empty(sizes: tuple[int, ...], size: int) -> None:
    data = (shares(*sizes), shares(*sizes))
    samples = slicing.batch_size(data)
    assert samples == min(sizes)
    cuts = [slicing.cut(data, *bounds) for bounds in slicing.bounds(samples, size)]
    for number, whole in enumerate(sizes):
        parts = [replicas.parts(one)[number][0].numpy()[:, 0] for one in cuts]
        assert all(len(part) for part in parts)
        assert np.concatenate(parts).tolist() == list(range(whole))


def test_what_is_of_no_replica_stays_as_it_is() -> None:
    data = (tf.ones((3, 2)), None)
    assert replicas.parts(data) == [data]
    assert replicas.together([data]) is data
    assert replicas.each(lambda one: one, data) is data


def test_a_value_of_the_only_replica_is_a_value() -> None:
    values = tf.constant([[1.0, 2.0]])
    assert replicas.unwrapped(graph_seams.per_replica([values])) is values
    both = graph_seams.per_replica([values, values])
    assert replicas.unwrapped(both) is both
    assert Arguments((graph_seams.per_replica([tf.zeros([5, 2])]),), {}).samples == 5


def test_what_does_not_fit_is_not_called_rescued() -> None:
    ran_out = Event.now("oom", phase="gradients", samples=1)
    assert "lost nothing" in (closing_line([ran_out]) or "")
    assert "does not fit" in (closing_line([ran_out, Event.now("does_not_fit")]) or "")
    assert "lost nothing" not in (closing_line([ran_out, Event.now("does_not_fit")]) or "")
