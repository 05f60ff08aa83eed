"""Linux processes as values: which one is meant, who belongs to a run, who still lives, and how they are ended.

Standard library only: the keeper process imports it.
"""

import functools
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

MARKER_VARIABLE = "VOLTA_RUN"
"""Every process of a run inherits this variable, so that one which left group and session is still found."""

CLEANUP_VARIABLE = "VOLTA_CLEANUP"
"""Set for the keeper's cleanup command: it descends from the keeper, but is no member that must be ended."""

_PROC = Path("/proc")
_DEAD_STATES = frozenset("ZXx")


@dataclass(frozen=True)
class ProcessIdentity:
    """One process for all time: a pid alone is reused, a pid with its start time within one boot is not."""

    pid: int
    start_ticks: int  # clock ticks after boot, field 22 of /proc/<pid>/stat
    boot_id: str


@dataclass(frozen=True)
class ProcessStat:
    """What /proc/<pid>/stat tells of a process."""

    pid: int
    state: str  # one letter: R, S, D, T, Z ...
    parent: int
    group: int
    session: int
    threads: int
    start_ticks: int

    @property
    def is_dead(self) -> bool:
        """A zombie holds nothing any more, unless one of its threads still hangs in a driver."""
        return self.state in _DEAD_STATES and self.threads <= 1


@dataclass(frozen=True)
class RunMark:
    """How the processes of one run are recognised."""

    leader: ProcessIdentity  # also names the group and the session: it was started by setsid
    marker: str  # the value of VOLTA_RUN
    keeper: int | None = None  # pid of a living keeper: it adopts orphans, so its descendants are the run


@functools.cache
def current_boot_id() -> str:
    """Changes with every boot of the kernel, and never in between."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def read_stat(pid: int) -> ProcessStat | None:
    """The process's stat line, or None when there is no such process."""
    try:
        line = (_PROC / str(pid) / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = line[line.rindex(b")") + 2 :].split()  # the name before it may hold spaces and brackets
    return ProcessStat(
        pid=pid,
        state=fields[0].decode(),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        threads=int(fields[17]),
        start_ticks=int(fields[19]),
    )


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of the process that has this pid now."""
    stat = read_stat(pid)
    return None if stat is None else ProcessIdentity(pid, stat.start_ticks, current_boot_id())


def is_alive(identity: ProcessIdentity) -> bool:
    """Whether this very process still runs. One small read of /proc; a zombie is dead."""
    if identity.boot_id != current_boot_id():
        return False
    stat = read_stat(identity.pid)
    return stat is not None and stat.start_ticks == identity.start_ticks and not stat.is_dead


def age_s(identity: ProcessIdentity) -> float:
    """Seconds since the process started, whatever the wall clock did meanwhile."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - identity.start_ticks / os.sysconf("SC_CLK_TCK")


def find_members(mark: RunMark) -> frozenset[ProcessIdentity]:
    """Living processes of a run: by group, session, descent from its keeper, or marker. Walks all of /proc."""
    table = {stat.pid: stat for stat in _all_stats()}
    claimed = _group_is_ours(mark, table)
    return frozenset(
        ProcessIdentity(stat.pid, stat.start_ticks, current_boot_id())
        for stat in table.values()
        if not stat.is_dead
        and stat.pid != mark.keeper
        and (
            (claimed and mark.leader.pid in (stat.group, stat.session))
            or (_descends_from(stat, mark.keeper, table) and not _is_cleanup(stat.pid))
            or marker_of(stat.pid) == mark.marker
        )
    )


def find_marked(prefix: str) -> Mapping[ProcessIdentity, str]:
    """Living processes whose run marker starts with `prefix`, with their markers."""
    found = ((stat, marker_of(stat.pid)) for stat in _all_stats() if not stat.is_dead)
    return {
        ProcessIdentity(stat.pid, stat.start_ticks, current_boot_id()): marker
        for stat, marker in found
        if marker is not None and marker.startswith(prefix)
    }


def marker_of(pid: int) -> str | None:
    """The run marker in a process's environment; None without one, or when we may not read it."""
    return _variable_of(pid, MARKER_VARIABLE)


def send_signal(identity: ProcessIdentity, number: signal.Signals) -> bool:
    """Signal this very process and no later owner of its pid. False when it is gone or not ours to signal."""
    try:
        descriptor = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return False
    except OSError:  # before Linux 5.3, or a container that forbids it: a tiny gap between look and signal remains
        return is_alive(identity) and _kill(identity.pid, number)
    try:
        if not is_alive(identity):
            return False
        signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(descriptor)
    return True


class Ending:
    """Ends the members of a run step by step: SIGTERM once to each, or SIGKILL at every step that asks for it.

    The caller owns the waiting, so that a keeper can drain its pipe and a panel its event loop meanwhile.
    """

    def __init__(self, find: Callable[[], frozenset[ProcessIdentity]]) -> None:
        self._find = find
        self._asked: set[ProcessIdentity] = set()
        self._killed: set[ProcessIdentity] = set()

    @property
    def killed(self) -> int:
        """How many were sent SIGKILL."""
        return len(self._killed)

    def step(self, *, kill: bool) -> frozenset[ProcessIdentity]:
        """Signal who lives now, and return them; empty when all are gone. New members are caught by the next step."""
        members = self._find()
        for member in members:
            if kill:
                send_signal(member, signal.SIGKILL)
                self._killed.add(member)
            elif member not in self._asked:
                send_signal(member, signal.SIGTERM)
                self._asked.add(member)
        return members


def _variable_of(pid: int, variable: str) -> str | None:
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    name = f"{variable}=".encode()
    values = (entry.removeprefix(name) for entry in environment.split(b"\0") if entry.startswith(name))
    return next((value.decode(errors="replace") for value in values), None)


def _is_cleanup(pid: int) -> bool:
    return _variable_of(pid, CLEANUP_VARIABLE) is not None


def all_pids() -> list[int]:
    """Every process that can be seen."""
    with os.scandir(_PROC) as entries:
        return [int(entry.name) for entry in entries if entry.name.isdecimal()]


def _all_stats() -> Iterator[ProcessStat]:
    return (stat for stat in map(read_stat, all_pids()) if stat is not None)


def _kill(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _group_is_ours(mark: RunMark, table: Mapping[int, ProcessStat]) -> bool:
    """A group keeps the leader's pid after its death; it is another's once that pid was given to a new process."""
    if mark.leader.boot_id != current_boot_id():
        return False
    holder = table.get(mark.leader.pid)
    return holder is None or holder.start_ticks == mark.leader.start_ticks


def _descends_from(stat: ProcessStat, ancestor: int | None, table: Mapping[int, ProcessStat]) -> bool:
    parent: ProcessStat | None = stat
    for _ in range(len(table)):  # bounded: the table is no snapshot and might hold a loop
        if parent is None or ancestor is None or parent.parent <= 1:
            return False
        if parent.parent == ancestor:
            return True
        parent = table.get(parent.parent)
    return False
