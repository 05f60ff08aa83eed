"""Which processes listen on a port: an answer from /health proves nothing while a stranger may have given it."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from backend.engine.process import all_pids

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTEN = "0A"


def listener_pids(port: int) -> frozenset[int]:
    """Processes that hold a listening TCP socket on `port`; only those whose descriptors we may read. Walks /proc."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    return frozenset(pid for pid in all_pids() if sockets & _descriptor_targets(pid)) if sockets else frozenset()


def is_strangers(port: int, members: Iterable[int]) -> bool:
    """Whether `port` is held by processes we can see and none of them is a member."""
    holders = listener_pids(port)
    return bool(holders) and holders.isdisjoint(members)


def _listening_inodes(port: int) -> set[str]:
    inodes = set()
    for table in _TABLES:
        try:
            lines = table.read_text().splitlines()[1:]
        except FileNotFoundError:  # no IPv6
            continue
        for line in lines:
            fields = line.split()  # slot, local address, remote address, state, ... inode at 9
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(fields[9])
    return inodes


def _descriptor_targets(pid: int) -> set[str]:
    targets = set()
    try:
        with os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # closed while we looked
                    targets.add(str(Path(entry.path).readlink()))
    except OSError:  # gone, or another user's
        return targets
    return targets
