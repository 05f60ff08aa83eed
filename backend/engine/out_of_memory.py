"""Counters of the kernel's out-of-memory killer: that they rose during a run tells why a process was killed."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class OutOfMemoryKills:
    """How often the killer has struck; None where the kernel does not count it."""

    group: int | None = None  # in the control group that engines share with the panel
    machine: int | None = None  # anywhere, since boot

    def since(self, before: "OutOfMemoryKills") -> int | None:
        """Kills between two readings, of the wider reach where both are known; None when neither counter can tell."""
        rises = (_rise(before.group, self.group), _rise(before.machine, self.machine))
        return max((rise for rise in rises if rise is not None), default=None)


def read_out_of_memory_kills(root: Path = Path("/")) -> OutOfMemoryKills:
    """Read both counters; a few small files. `root` is where proc and sys are found."""
    return OutOfMemoryKills(group=_group_kills(root), machine=_counter(root / "proc/vmstat", "oom_kill"))


def _group_kills(root: Path) -> int | None:
    """Of the own group: version 2 (memory.events), else version 1 (memory.oom_control)."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            found = _counter(root / "sys/fs/cgroup" / path.lstrip("/") / "memory.events", "oom_kill")
        elif "memory" in controllers.split(","):
            mount = root / "sys/fs/cgroup/memory"
            groups = (mount / path.lstrip("/"), mount)  # a container sees its own group as the mount
            found = next(
                (n for n in (_counter(group / "memory.oom_control", "oom_kill") for group in groups) if n is not None),
                None,
            )
        else:
            continue
        if found is not None:
            return found
    return None


def _counter(path: Path, name: str) -> int | None:
    for line in _text(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.strip().isdecimal():
            return int(value)
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _rise(before: int | None, after: int | None) -> int | None:
    """None when a reading is missing, and when the counter began anew: the machine or the group is another."""
    return None if before is None or after is None or after < before else after - before
