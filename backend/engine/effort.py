"""What the processes of a run have done so far: bytes read and processor time. That it grows shows that a start moves."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Effort:
    """Sums over the living members. They fall when a member ends."""

    read_bytes: int | None  # by read() and from disk by page faults; None where none of them may be read
    cpu_s: float


def read_effort(pids: Iterable[int]) -> Effort:
    """Two small files of /proc a process; one that is gone or another user's adds nothing."""
    members = tuple(pids)
    counts = [count for count in map(_read_bytes, members) if count is not None]
    return Effort(read_bytes=sum(counts) if counts else None, cpu_s=sum(map(_cpu_s, members)))


def _read_bytes(pid: int) -> int | None:
    """rchar counts read(), read_bytes what came from a disk, mapped files included; a byte may be in both."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return None
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    return int(fields.get("rchar", 0)) + int(fields.get("read_bytes", 0))


def _cpu_s(pid: int) -> float:
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0.0
    fields = line[line.rindex(b")") + 2 :].split()  # the name before it may hold spaces and brackets
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
