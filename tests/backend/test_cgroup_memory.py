"""Memory limits of control groups, as files below a root of our own."""

from pathlib import Path

import pytest

from backend.cgroup_memory import CgroupMemory, read_cgroup_memory

GIB = 1024**3


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def write_group(root: Path, group: str, *, limit: str, used: int, droppable: int = 0) -> None:
    """A group of version 2 below the mount."""
    folder = f"sys/fs/cgroup/{group}"
    write(root, f"{folder}/memory.max", limit)
    write(root, f"{folder}/memory.current", str(used))
    write(root, f"{folder}/memory.stat", f"anon 1\nfile 2\ninactive_file {droppable}\nactive_file 4")


def test_a_machine_without_control_groups_has_no_limit(tmp_path: Path) -> None:
    assert read_cgroup_memory(tmp_path) is None


def test_a_group_without_a_limit_has_none(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/user.slice")
    write_group(tmp_path, "user.slice", limit="max", used=GIB)
    assert read_cgroup_memory(tmp_path) is None


def test_a_container_sees_its_limit_at_the_mount(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/")
    write_group(tmp_path, "", limit=str(4 * GIB), used=3 * GIB, droppable=GIB)
    assert read_cgroup_memory(tmp_path) == CgroupMemory(limit_bytes=4 * GIB, used_bytes=2 * GIB)


def test_the_tightest_limit_above_us_counts(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/lab.slice/panel.service")
    write_group(tmp_path, "lab.slice", limit=str(2 * GIB), used=GIB)
    write_group(tmp_path, "lab.slice/panel.service", limit=str(8 * GIB), used=5)
    assert read_cgroup_memory(tmp_path) == CgroupMemory(limit_bytes=2 * GIB, used_bytes=GIB)


@pytest.mark.parametrize("path", ["/docker/0123", "/docker/0123/deeper"])
def test_version_one_in_a_container_is_read_at_the_mount(tmp_path: Path, path: str) -> None:
    write(tmp_path, "proc/self/cgroup", f"9:cpu,cpuacct:/docker\n4:memory:{path}\n0::/")
    write(tmp_path, "sys/fs/cgroup/memory/memory.limit_in_bytes", str(GIB))
    write(tmp_path, "sys/fs/cgroup/memory/memory.usage_in_bytes", "5000")
    write(tmp_path, "sys/fs/cgroup/memory/memory.stat", "cache 1\ntotal_inactive_file 2000")
    assert read_cgroup_memory(tmp_path) == CgroupMemory(limit_bytes=GIB, used_bytes=3000)


def test_cache_beyond_the_usage_does_not_make_it_negative(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/")
    write_group(tmp_path, "", limit=str(GIB), used=100, droppable=200)
    memory = read_cgroup_memory(tmp_path)
    assert memory is not None
    assert memory.used_bytes == 0


def test_a_path_that_climbs_out_of_the_mount_ends_at_the_mount(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/../elsewhere")  # what a process moved out of its namespace reads
    write_group(tmp_path, "", limit=str(GIB), used=1)
    assert read_cgroup_memory(tmp_path) == CgroupMemory(GIB, 1)
