from __future__ import annotations

import pytest
import tensorflow as tf

from fitroom import devices
from fitroom.devices import pocket
from fitroom.errors import DeviceError, UnitError, UsageError
from fitroom.units import MIB
from tests.conftest import Run

PLAIN = {pocket.SWITCH: "0", pocket.LIMIT: ""}


def test_the_environment_for_a_limit_is_in_whole_mib() -> None:
    assert pocket.environment("600.9MiB")[pocket.LIMIT] == "600"
    with pytest.raises(UsageError, match="at least 1 MiB"):
        pocket.environment("1000KiB")
    with pytest.raises(UnitError):
        pocket.environment("plenty")


BALLAST = """
import tensorflow as tf
from fitroom.devices import pocket
from fitroom.units import MIB
arena = pocket.limit()
tf.zeros([1])
before = pocket.use().current
for free in (3, 20, 127, 128, 300, 1000, 1500):
    with pocket.ballast(free * MIB):
        assert arena - pocket.use().current == free * MIB, free
    assert pocket.use().current == before, free
with pocket.ballast("200MiB"):
    tf.raw_ops.Empty(shape=[199 * MIB], dtype=tf.uint8)
print("exact")
"""


def test_a_ballast_leaves_exactly_that_much_free_in_one_piece(python: Run) -> None:
    # In a process of its own: in an arena that other tests have left in pieces every piece costs ten seconds.
    done = python("-c", BALLAST)
    assert done.stdout == "exact\n", done.stderr[-2000:]


def test_a_ballast_cannot_leave_more_than_there_is() -> None:
    with pytest.raises(UsageError, match="Less is free"), pocket.ballast("3GiB"):
        pass


def test_the_peak_is_counted_and_reset() -> None:
    tf.zeros([10 * MIB // 4])
    assert pocket.use().peak >= 10 * MIB
    pocket.reset_peak()
    assert pocket.use().peak < 10 * MIB


def test_a_running_tensorflow_cannot_get_the_pocket_device(python: Run) -> None:
    code = """
import tensorflow as tf
from fitroom import devices
from fitroom.devices import pocket
from fitroom.errors import DeviceError
try:
    pocket.enable("100MiB")
except DeviceError as error:
    print("refused:", error)
try:
    pocket.use()
except DeviceError as error:
    print("no use:", error)
asked = devices.budget("100MiB")
print("enforced:", asked.enforced, devices.enforce(asked).enforced)
"""
    done = python("-c", code, env=PLAIN)
    assert "refused: The pocket device must be set up before TensorFlow is imported." in done.stdout, done.stderr
    assert "Try: TF_CPU_ALLOCATOR_USE_BFC=1 TF_CPU_BFC_MEM_LIMIT_IN_MB=100 python your_script.py" in done.stdout
    assert "no use: This process has no pocket device." in done.stdout
    assert "enforced: False False" in done.stdout


def test_a_fresh_process_is_kept_to_its_budget_by_the_allocator(python: Run) -> None:
    code = """
from fitroom import devices
budget = devices.enforce(devices.budget("64MiB"))
print(budget)
import tensorflow as tf
tf.raw_ops.Empty(shape=[60 << 20], dtype=tf.uint8)
try:
    tf.raw_ops.Empty(shape=[65 << 20], dtype=tf.uint8)
except tf.errors.ResourceExhaustedError:
    print("ran out")
"""
    done = python("-c", code, env=PLAIN)
    assert done.stdout.splitlines() == ["64 MiB on CPU:0 (pocket, asked, enforced)", "ran out"], done.stderr


def test_enabling_it_again_with_the_same_limit_is_fine() -> None:
    pocket.enable("2GiB")
    with pytest.raises(DeviceError, match="with a limit of 2 GiB"):
        pocket.enable("1GiB")


def test_budgets_on_a_pocket_device() -> None:
    assert devices.budget("2GiB").enforced
    assert not devices.budget("1GiB").enforced  # the arena that stands is larger
    assert devices.budget().mib == 2048


def test_without_a_gpu_or_a_budget_the_host_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pocket.SWITCH, "0")
    budget = devices.budget()
    assert (budget.kind, budget.enforced, budget.origin) == ("host", False, "free")
    assert abs(budget.bytes - devices.host.memory().available) < 500 * MIB
    with pytest.raises(UsageError, match="this host"):
        devices.budget("100TiB")
