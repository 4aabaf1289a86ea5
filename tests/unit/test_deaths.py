"""Deaths told apart: memory only on evidence."""

from __future__ import annotations

import itertools

import pytest

from fitroom.devices.limits import Use
from fitroom.supervisor import deaths
from fitroom.supervisor.less import Host, Settings, less
from fitroom.units import GIB, MIB

BAD_ALLOC = "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n"
CHECK = "F0000 00:00:1794816582.603389 13836 bfc_allocator.cc:711] Check failed: h != kInvalidChunkHandle\n"
CHECK += "    @     0x7fadad499605  TFE_DeleteTensorHandle\n" * 100
ALLOCATOR = (
    "W bfc_allocator.cc:512] Allocator (bfc_cpu_allocator_for_gpu) ran out of memory trying to allocate 64.00MiB\n"
)
ASSERT = "python: engine.cc:12: void run(): Assertion `ready' failed.\n"
SURVIVED = "OOM when allocating tensor with shape[8] and type float on CPU:0\n" + "Epoch 2/9\n" * 1000


def full(share: float) -> Use:
    return Use("the control group", 4 * GIB, int(share * 4 * GIB))


@pytest.mark.parametrize(
    ("code", "said", "kills", "last", "of_memory"),
    [
        (-6, BAD_ALLOC, 0, None, True),
        (134, BAD_ALLOC, 0, None, True),
        (-6, ALLOCATOR + CHECK, 0, None, True),
        (-6, CHECK, 0, None, True),
        (-6, ASSERT, 0, None, False),
        (-6, "", 0, full(0.99), False),
        (-6, SURVIVED + ASSERT, 0, None, False),
        (-9, "", 1, None, True),
        (137, "", 1, None, True),
        (-9, "", 0, full(0.95), True),
        (-9, "", 0, full(0.85), False),
        (-9, BAD_ALLOC, 0, full(0.2), False),
        (-9, "", 0, None, False),
        (-11, "", 0, full(0.5), False),
        (-11, BAD_ALLOC, 0, None, True),
        (-6, ALLOCATOR + ASSERT, 0, None, False),
        (-11, "caught an error and went on: std::bad_alloc\n" + "training goes on\n" * 300, 0, None, False),
        (1, "MemoryError\n", 1, full(0.99), False),
        (1, ALLOCATOR, 0, None, False),
        (-15, ALLOCATOR, 0, full(0.99), False),
        (3, "", 1, None, False),
    ],
)
def test_memory_only_on_evidence(code: int, said: str, kills: int, last: Use | None, of_memory: bool) -> None:
    found = deaths.of_memory(code, said, kills=kills, last=last)
    assert (found is not None) == of_memory
    if found is not None:
        assert found.is_memory
        assert found.certain
        assert found.evidence


@pytest.mark.parametrize(
    ("code", "seconds", "of_memory"),
    [(-11, 0.2, True), (139, 1.0, True), (-6, 0.1, True), (-11, 30.0, False), (-11, None, False), (1, 0.1, False)],
)
def test_a_crash_right_after_the_allocator_ran_out_is_memory(code: int, seconds: float | None, of_memory: bool) -> None:
    assert (deaths.of_memory(code, "", ran_out=seconds) is not None) == of_memory


class TestLess:
    def test_on_a_cpu_a_limit_turns_a_kill_into_an_error(self) -> None:
        first = less(Settings(), Host(4 * GIB, 1 * GIB), on_gpu=False)
        assert first is not None
        assert first.slices == 1
        assert first.budget_mib is not None
        assert 0.5 * 3 * GIB < first.budget_mib * MIB < 3 * GIB

    def test_each_further_death_needs_less_until_nothing_is_left(self) -> None:
        settings: Settings | None = Settings(512)
        seen = []
        while settings is not None:
            seen.append(settings)
            settings = less(settings, Host(GIB, 0), on_gpu=False)
        assert len(seen) > 3
        for before, after in itertools.pairwise(seen):
            assert after.slices > before.slices
            assert (after.budget_mib or 0) <= (before.budget_mib or 0)
            assert (after.budget_mib or 0) >= 16

    def test_a_limit_on_address_space_leaves_few_arenas(self) -> None:
        settings = less(Settings(), Host(4 * GIB, GIB, is_address_space=True), on_gpu=False)
        assert settings is not None
        assert settings.few_arenas
        again = less(settings, Host(4 * GIB, GIB), on_gpu=False)
        assert again is not None
        assert again.few_arenas

    def test_on_a_gpu_the_limit_stays_and_batches_are_cut(self) -> None:
        assert less(Settings(4096), Host(GIB, 0), on_gpu=True) == Settings(4096, 4)
        assert less(Settings(), None, on_gpu=True) == Settings(None, 4)
