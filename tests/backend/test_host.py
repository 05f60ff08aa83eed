"""Readings of this very machine, held against /proc and the clock."""

import asyncio
import os
import shutil
import statistics
import time
from pathlib import Path

from backend.changes import Changes
from backend.host import HostSampler, HostSnapshot, MemoryBound, read_host
from backend.reading import Missing, MissingReason

MIB = 1024**2
SECONDS_TO_WAIT = 10.0
NO_CGROUP = Path("/nowhere")


def meminfo_bytes(name: str) -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    raise KeyError(name)


async def next_snapshot(sampler: HostSampler, changes: Changes) -> HostSnapshot:
    await changes.wait(changes.version, SECONDS_TO_WAIT)
    snapshot = sampler.snapshot()
    assert snapshot is not None
    return snapshot


def test_memory_is_what_the_kernel_says(tmp_path: Path) -> None:
    before = meminfo_bytes("MemAvailable")
    host = read_host(tmp_path, root=NO_CGROUP)
    after = meminfo_bytes("MemAvailable")
    assert host.memory_bound is MemoryBound.MACHINE
    assert host.memory_total_bytes == meminfo_bytes("MemTotal")
    assert isinstance(host.memory_available_bytes, int)
    assert min(before, after) - 256 * MIB <= host.memory_available_bytes <= max(before, after) + 256 * MIB
    assert host.memory_used_bytes == host.memory_total_bytes - host.memory_available_bytes


def test_a_lower_limit_of_a_control_group_is_shown_instead(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text(f"{100 * MIB}\n")
    (group / "memory.current").write_text(f"{30 * MIB}\n")
    host = read_host(tmp_path, root=tmp_path)
    assert host.memory_bound is MemoryBound.CGROUP
    assert (host.memory_total_bytes, host.memory_used_bytes, host.memory_available_bytes) == (
        100 * MIB,
        30 * MIB,
        70 * MIB,
    )


def test_a_limit_above_the_machine_is_no_limit(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup/memory"
    group.mkdir(parents=True)
    (group / "memory.limit_in_bytes").write_text("9223372036854771712\n")  # what version 1 writes for "no limit"
    (group / "memory.usage_in_bytes").write_text("1000\n")
    host = read_host(tmp_path, root=tmp_path)
    assert host.memory_bound is MemoryBound.MACHINE
    assert host.memory_total_bytes == meminfo_bytes("MemTotal")


def test_disk_is_that_of_the_state_folder(tmp_path: Path) -> None:
    host = read_host(tmp_path)
    usage = shutil.disk_usage(tmp_path)
    assert host.disk_total_bytes == usage.total
    assert isinstance(host.disk_free_bytes, int)
    assert abs(host.disk_free_bytes - usage.free) < 1024 * MIB


def test_a_state_folder_that_is_gone_is_missing_with_its_name(tmp_path: Path) -> None:
    host = read_host(tmp_path / "gone")
    assert isinstance(host.disk_free_bytes, Missing)
    assert host.disk_free_bytes.reason is MissingReason.ERROR
    assert "gone" in host.disk_free_bytes.detail
    assert isinstance(host.memory_total_bytes, int)


def test_load_is_what_the_kernel_says(tmp_path: Path) -> None:
    load = read_host(tmp_path).load_1m
    assert isinstance(load, float)
    assert abs(load - float(Path("/proc/loadavg").read_text().split()[0])) < 0.5


def test_a_busy_core_is_seen(tmp_path: Path) -> None:
    read_host(tmp_path)
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        pass
    host = read_host(tmp_path)
    assert isinstance(host.cpu_percent, float)
    assert 0.5 * 100 / (os.cpu_count() or 1) <= host.cpu_percent <= 100.0


async def test_the_first_snapshot_comes_soon_and_changes_are_told(tmp_path: Path) -> None:
    changes = Changes()
    sampler = HostSampler(tmp_path, on_change=changes.notify)
    assert sampler.snapshot() is None
    sampler.start()
    began = time.monotonic()
    try:
        first = await next_snapshot(sampler, changes)
        assert time.monotonic() - began < 2.0
        second = await next_snapshot(sampler, changes)
    finally:
        await sampler.close()
    assert 1.5 < second.taken_at - first.taken_at < 4.0
    assert changes.version == 2


async def test_a_closed_sampler_reads_no_more(tmp_path: Path) -> None:
    sampler = HostSampler(tmp_path)
    sampler.start()
    await sampler.close()
    assert [task for task in asyncio.all_tasks() if task.get_name() == "host sampler"] == []


def test_one_reading_takes_less_than_a_millisecond_of_processor(tmp_path: Path) -> None:
    spent_s = []
    for _ in range(50):
        began = time.thread_time()  # processor time: other work on the machine must not count
        read_host(tmp_path)
        spent_s.append(time.thread_time() - began)
    assert statistics.median(spent_s) < 0.001
