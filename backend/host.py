"""The machine the panel runs on: processor, memory, disk and load, read every two seconds."""

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import psutil

from backend.cgroup_memory import read_cgroup_memory
from backend.reading import Missing, MissingReason, Reading

T = TypeVar("T")

INTERVAL_S = 2.0
FIRST_INTERVAL_S = 0.25  # processor use is a difference between two moments


class MemoryBound(StrEnum):
    """What bounds the memory that is shown."""

    MACHINE = "machine"
    CGROUP = "cgroup"  # a container's or a service's limit, lower than the machine's memory


@dataclass(frozen=True)
class HostSnapshot:
    """One reading of the machine.

    Under a memory limit below the machine's memory, memory is that limit and what is used of it: what engines started
    by this panel can have, not what the machine has.
    """

    taken_at: float  # wall-clock seconds (time.time)
    cpu_percent: Reading[float]  # of all cores of the machine together, since the reading before: 0 to 100
    cpu_count: int | None  # logical cores of the machine
    memory_total_bytes: Reading[int]
    memory_used_bytes: Reading[int]  # total minus available: caches that can be dropped are not used
    memory_available_bytes: Reading[int]
    memory_bound: MemoryBound
    disk_free_bytes: Reading[int]  # for this user, where the state folder is
    disk_total_bytes: Reading[int]
    load_1m: Reading[float]  # processes that run or wait to; beyond cpu_count they queue


@dataclass(frozen=True)
class _Memory:
    total_bytes: int
    available_bytes: int
    bound: MemoryBound


@dataclass(frozen=True)
class _Disk:
    total_bytes: int
    free_bytes: int


def _ignore() -> None:
    """The on_change of a sampler that nobody listens to."""


class HostSampler:
    """Reads the machine in the event loop: one reading takes well under a millisecond.

    `root` is where the files of control groups are found.
    """

    def __init__(self, state_folder: Path, *, on_change: Callable[[], None] = _ignore, root: Path = Path("/")) -> None:
        self._state_folder = state_folder
        self._on_change = on_change
        self._root = root
        self._snapshot: HostSnapshot | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin in the running event loop. Returns at once."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="host sampler")

    async def close(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def snapshot(self) -> HostSnapshot | None:
        """The last reading; None in the first quarter of a second."""
        return self._snapshot

    async def _run(self) -> None:
        psutil.cpu_percent()  # the moment that the first reading is measured from
        await asyncio.sleep(FIRST_INTERVAL_S)
        while True:
            self._snapshot = read_host(self._state_folder, root=self._root)
            self._on_change()
            await asyncio.sleep(INTERVAL_S)


def read_host(state_folder: Path, *, root: Path = Path("/")) -> HostSnapshot:
    """One reading now. Processor use is since the call before, in this process."""
    memory = _read_or_missing(lambda: _read_memory(root))
    disk = _read_or_missing(lambda: _read_disk(state_folder))
    return HostSnapshot(
        taken_at=time.time(),
        cpu_percent=_read_or_missing(psutil.cpu_percent),
        cpu_count=os.cpu_count(),
        memory_total_bytes=memory if isinstance(memory, Missing) else memory.total_bytes,
        memory_used_bytes=memory if isinstance(memory, Missing) else memory.total_bytes - memory.available_bytes,
        memory_available_bytes=memory if isinstance(memory, Missing) else memory.available_bytes,
        memory_bound=MemoryBound.MACHINE if isinstance(memory, Missing) else memory.bound,
        disk_free_bytes=disk if isinstance(disk, Missing) else disk.free_bytes,
        disk_total_bytes=disk if isinstance(disk, Missing) else disk.total_bytes,
        load_1m=_read_or_missing(lambda: os.getloadavg()[0]),
    )


def _read_memory(root: Path) -> _Memory:
    machine = psutil.virtual_memory()
    group = read_cgroup_memory(root)
    if group is None or group.limit_bytes >= machine.total:
        return _Memory(machine.total, machine.available, MemoryBound.MACHINE)
    left_bytes = max(0, group.limit_bytes - group.used_bytes)
    return _Memory(group.limit_bytes, min(left_bytes, machine.available), MemoryBound.CGROUP)


def _read_disk(folder: Path) -> _Disk:
    usage = psutil.disk_usage(str(folder))
    return _Disk(usage.total, usage.free)


def _read_or_missing(read: Callable[[], T]) -> T | Missing:
    """The value, or what the operating system says against reading it."""
    try:
        return read()
    except PermissionError as error:
        return Missing(MissingReason.DENIED, str(error))
    except OSError as error:
        return Missing(MissingReason.ERROR, str(error))
