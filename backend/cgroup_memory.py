"""The memory that this process's control groups allow it: in a container the machine's own figure is not what counts."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class CgroupMemory:
    """The tightest limit on this process, and what its group uses of it."""

    limit_bytes: int
    used_bytes: int  # without file cache that is given back under pressure


@dataclass(frozen=True)
class _Layout:
    """Where one version of cgroups keeps it."""

    mount: str
    controller: str  # as /proc/self/cgroup names it; "" is version 2
    limit: str
    usage: str
    droppable: str  # key in memory.stat


_LAYOUTS = (
    _Layout("sys/fs/cgroup", "", "memory.max", "memory.current", "inactive_file"),
    _Layout("sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)

_NO_LIMIT = 1 << 62  # version 1 has no word for it and writes the largest number of whole pages


def read_cgroup_memory(root: Path = Path("/")) -> CgroupMemory | None:
    """The tightest limit of the groups this process is in and of those above them; None where there is no limit.

    `root` is where proc and sys are found.
    """
    mounted = [layout for layout in _LAYOUTS if (root / layout.mount).is_dir()]
    if not mounted:
        return None
    membership = _read(root / "proc/self/cgroup")
    groups = [(group, layout) for layout in mounted for group in _groups(root, membership, layout)]
    found = [memory for group, layout in groups if (memory := _memory(group, layout))]
    return min(found, key=lambda memory: memory.limit_bytes, default=None)


def _groups(root: Path, membership: str, layout: _Layout) -> Iterator[Path]:
    """Our group and its ancestors. A container sees its own group as the mount, whatever /proc calls it."""
    mount = root / layout.mount
    group = mount / _own_group(membership, layout.controller).lstrip("/")
    while mount in group.parents:
        yield group
        group = group.parent
    yield mount


def _own_group(membership: str, controller: str) -> str:
    """Our path in the tree of one controller; lines of /proc/self/cgroup are id:controllers:path."""
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path
    return ""


def _memory(group: Path, layout: _Layout) -> CgroupMemory | None:
    limit = _read(group / layout.limit)
    if not limit.isdecimal() or int(limit) >= _NO_LIMIT:  # no such group, or "max"
        return None
    usage = _read(group / layout.usage)
    if not usage.isdecimal():
        return None
    return CgroupMemory(int(limit), max(0, int(usage) - _droppable_bytes(group / "memory.stat", layout.droppable)))


def _droppable_bytes(statistics: Path, name: str) -> int:
    for line in _read(statistics).splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.isdecimal():
            return int(value)
    return 0


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
