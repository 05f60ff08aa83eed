"""Files that killed engines leave in /dev/shm: whose they are, and removing those of one run only.

Python's SharedMemory and semaphores, NCCL and torch leave named files behind when their owner is killed; after a few
crashes of a large engine they fill the memory. Standard library only: the keeper process imports it.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from backend.engine.process import all_pids

SHARED_MEMORY = Path("/dev/shm")
LEAKED_PREFIXES = ("psm_", "sem.mp-", "nccl-", "torch_")

LOOKS = 3  # at a file that nobody holds; its holder, if any, is dead or about to map it

_SECOND_LOOK_S = 0.3


@dataclass(frozen=True)
class SharedFile:
    """One file in shared memory. Device and inode tell it from a later one of the same name."""

    name: str
    device: int
    inode: int


class SharedMemoryWatch:
    """Learns which shared-memory files belong to a run while its members still hold them.

    A look costs one directory listing, and more only when a new name has appeared.
    """

    def __init__(self, folder: Path = SHARED_MEMORY) -> None:
        self._folder = folder
        self._ours: set[SharedFile] = set()
        self._others: set[SharedFile] = set()
        self._looks: dict[SharedFile, int] = {}  # files nobody was seen to hold, and how often they were looked for

    @property
    def ours(self) -> frozenset[SharedFile]:
        """Seen held by a member of the run."""
        return frozenset(self._ours)

    @property
    def others(self) -> frozenset[SharedFile]:
        """There before the run, or seen held by a process outside it."""
        return frozenset(self._others)

    def begin(self) -> None:
        """Call before the run's first process: what exists now is another's."""
        self._others.update(list_shared(self._folder))

    def look(self, members: Callable[[], Iterable[int]]) -> bool:
        """Sort files that are new since the last look; `members` gives the run's pids. True when one was sorted."""
        present = list_shared(self._folder)
        self._others &= present
        new = {file for file in present - self._ours - self._others if self._looks.get(file, 0) < LOOKS}
        if not new:
            return False
        ours = held_files(new, members())
        visible = set(all_pids())
        strangers = visible - set(members())  # asked again: a member may be new, and may have mapped the file meanwhile
        others = held_files(new - ours, strangers)
        self._ours |= ours
        self._others |= others
        self._looks = {file: self._looks.get(file, 0) + 1 for file in present - self._ours - self._others}
        return bool(ours or others)


def list_shared(folder: Path = SHARED_MEMORY) -> set[SharedFile]:
    """Files of the kinds that leak, of our user."""
    found = set()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(LEAKED_PREFIXES):
                    shared = _describe(entry)
                    if shared is not None:
                        found.add(shared)
    except FileNotFoundError:
        return set()
    return found


def held_files(files: Iterable[SharedFile], pids: Iterable[int]) -> set[SharedFile]:
    """Those of `files` that one of the processes has mapped or open; one we may not read counts as holding none."""
    wanted = {(shared.device, shared.inode): shared for shared in files}
    held: set[SharedFile] = set()
    for pid in pids:
        if len(held) == len(wanted):
            break
        keys = _mapped_keys(pid) | _open_keys(pid)
        held.update(shared for key, shared in wanted.items() if key in keys)
    return held


def sweep(
    ours: Iterable[SharedFile], others: Iterable[SharedFile], *, since: float, folder: Path = SHARED_MEMORY
) -> tuple[str, ...]:
    """Remove what a run that has ended left behind; returns the names. Blocks up to a third of a second.

    Its own files go, and files made after `since` (wall clock) that nobody was ever seen to hold; in both cases only
    what no living process holds now. Of the second kind only what nobody holds at two looks: its maker may be another
    engine between creating and mapping it.
    """
    own, known_others = set(ours), set(others)
    present = list_shared(folder)
    doubtful = {file for file in present - own - known_others if _made_after(folder / file.name, since)}
    leftovers = _unheld(present & own)
    doubtful = _unheld(doubtful)
    if doubtful:
        time.sleep(_SECOND_LOOK_S)
        leftovers |= _unheld(doubtful)
    return _remove(leftovers, folder)


def _unheld(files: set[SharedFile]) -> set[SharedFile]:
    return files - held_files(files, all_pids()) if files else set()


def _remove(files: Iterable[SharedFile], folder: Path) -> tuple[str, ...]:
    present = list_shared(folder)
    removed = [shared.name for shared in files if shared in present]
    for name in removed:
        (folder / name).unlink(missing_ok=True)
    return tuple(sorted(removed))


def _describe(entry: "os.DirEntry[str]") -> SharedFile | None:
    try:
        facts = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return SharedFile(entry.name, facts.st_dev, facts.st_ino) if facts.st_uid == os.getuid() else None


def _made_after(path: Path, since: float) -> bool:
    try:
        return path.stat().st_ctime >= since
    except FileNotFoundError:
        return False


def _mapped_keys(pid: int) -> set[tuple[int, int]]:
    try:
        maps = Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:  # gone, or another user's
        return set()
    keys = set()
    for line in maps.splitlines():
        fields = line.split(maxsplit=5)  # address, permissions, offset, device, inode, path
        if len(fields) == 6 and fields[4] != b"0":
            major, _, minor = fields[3].partition(b":")
            keys.add((os.makedev(int(major, 16), int(minor, 16)), int(fields[4])))
    return keys


def _open_keys(pid: int) -> set[tuple[int, int]]:
    keys: set[tuple[int, int]] = set()
    try:
        with os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # closed while we looked
                    facts = entry.stat()
                    keys.add((facts.st_dev, facts.st_ino))
    except OSError:  # the process is gone, or another user's
        return keys
    return keys
