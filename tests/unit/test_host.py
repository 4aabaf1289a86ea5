from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from fitroom.devices import host
from fitroom.units import GIB, MIB


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_without_a_control_group_the_machine_counts(tmp_path: Path) -> None:
    memory = host.memory(tmp_path)
    assert memory.total == psutil.virtual_memory().total
    assert 0 < memory.rss < memory.total
    assert memory.limited_by is None


def test_this_machine_is_read() -> None:
    memory = host.memory()
    assert 0 < memory.available <= memory.total <= psutil.virtual_memory().total


@pytest.mark.parametrize(
    ("cgroup", "folder", "limit", "used", "stat"),
    [
        ("0::/job\n", "sys/fs/cgroup/job", "memory.max", "memory.current", "inactive_file"),
        ("4:cpu,memory:/job\n", "sys/fs/cgroup/memory/job", "memory.limit_in_bytes", "memory.usage_in_bytes",
         "total_inactive_file"),
    ],
    ids=["version 2", "version 1"],
)  # fmt: skip
def test_a_control_groups_limit_counts(
    tmp_path: Path, cgroup: str, folder: str, limit: str, used: str, stat: str
) -> None:
    # GIVEN a group of 512 MiB, 300 in use, 100 of which the kernel would give back
    root = write(tmp_path, {
        "proc/self/cgroup": cgroup,
        f"{folder}/{limit}": f"{512 * MIB}\n",
        f"{folder}/{used}": f"{300 * MIB}\n",
        f"{folder}/memory.stat": f"anon 1\n{stat} {100 * MIB}\n",
    })  # fmt: skip
    # THEN 312 MiB can still be had
    memory = host.memory(root)
    assert memory.total == 512 * MIB
    assert memory.available == 312 * MIB
    assert memory.limited_by == str(root / folder)


def test_the_narrowest_group_on_the_way_up_counts(tmp_path: Path) -> None:
    root = write(tmp_path, {
        "proc/self/cgroup": "0::/slice/pod/container\n",
        "sys/fs/cgroup/slice/pod/container/memory.max": "max\n",
        "sys/fs/cgroup/slice/pod/memory.max": f"{256 * MIB}\n",
        "sys/fs/cgroup/slice/pod/memory.current": f"{56 * MIB}\n",
        "sys/fs/cgroup/slice/memory.max": f"{GIB}\n",
    })  # fmt: skip
    memory = host.memory(root)
    assert (memory.total, memory.available) == (256 * MIB, 200 * MIB)


def test_a_path_of_the_host_is_not_ours_inside_a_container(tmp_path: Path) -> None:
    root = write(tmp_path, {
        "proc/self/cgroup": "0::/not/visible/here\n",
        "sys/fs/cgroup/memory.max": f"{128 * MIB}\n",
        "sys/fs/cgroup/memory.current": "0\n",
    })  # fmt: skip
    assert host.memory(root).total == 128 * MIB


@pytest.mark.parametrize("limit", ["max", str(0x7FFFFFFFFFFFF000), "nonsense", ""])
def test_no_limit_is_no_limit(tmp_path: Path, limit: str) -> None:
    root = write(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": limit})
    assert host.memory(root).limited_by is None


def test_a_group_that_is_over_its_limit_has_nothing_available(tmp_path: Path) -> None:
    root = write(tmp_path, {
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/memory.max": f"{10 * MIB}",
        "sys/fs/cgroup/memory.current": f"{20 * MIB}",
    })  # fmt: skip
    assert host.memory(root).available == 0


def test_the_kernels_kills_are_counted(tmp_path: Path) -> None:
    root = write(tmp_path, {
        "proc/self/cgroup": "0::/job\n",
        "sys/fs/cgroup/job/memory.events": "low 0\noom 3\noom_kill 2\n",
    })  # fmt: skip
    assert host.memory_kills(root) == 2
    assert host.memory_kills(tmp_path / "nothing") == 0
