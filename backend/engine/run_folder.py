"""One run on disk: which file holds what, written atomically and read strictly. Panel and keeper meet only here.

    launch.json    RunOrder: what to execute                    panel -> keeper, 0600 (it may hold keys)
    process.json   RunProcess: who keeper and leader are        keeper -> panel, before the engine's first instruction
    shared.json    shared-memory files of this run and others   keeper -> panel, should the keeper be killed
    exit.json      RunExit: how it ended                        keeper -> panel, its last act
    keeper.log     the keeper's own complaints, normally empty
    log/           the engine's output, see log_segments.py
    work/          an empty folder, the engine's cwd unless the preset names another

Standard library only: the keeper process imports it.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from backend.engine.process import ProcessIdentity, RunMark
from backend.engine.shared_memory import SharedFile

_TEMPORARY_PREFIX = "volta-run-"


class UnreadableFile(Exception):
    """A state file is corrupt, half written or of the wrong shape; the message names file and fault."""


@dataclass(frozen=True)
class RunOrder:
    """What the keeper executes, complete: nothing is added from its own environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    marker: str
    temporary: str  # the run's TMPDIR, removed with everything in it when the run has ended
    cleanup: tuple[str, ...] = ()  # run after the end, see cleanup.py; argv[0] is an absolute path


@dataclass(frozen=True)
class RunProcess:
    """The processes of a run."""

    keeper: ProcessIdentity
    leader: ProcessIdentity
    marker: str
    temporary: str
    started_at: float  # wall clock

    def mark(self, *, keeper_lives: bool) -> RunMark:
        """How to find the members of this run."""
        return RunMark(self.leader, self.marker, self.keeper.pid if keeper_lives else None)


@dataclass(frozen=True)
class RunExit:
    """How a run ended."""

    returncode: int | None  # negative: by that signal; None: it was never executed, see error
    ended_at: float  # wall clock
    error: str = ""  # why it could not be executed
    leftovers: int = 0  # members that lived on after the leader
    killed: int = 0  # of these, how many ignored SIGTERM
    stuck: tuple[int, ...] = ()  # pids that even SIGKILL did not end in time
    swept: tuple[str, ...] = ()  # names removed from shared memory
    cleanup_fault: str = ""  # why the order's cleanup command did not do its work


@dataclass(frozen=True)
class RunFolder:
    """Paths of one run and typed access to its files. Nothing is created before create()."""

    path: Path

    @property
    def log(self) -> Path:
        return self.path / "log"

    @property
    def keeper_log(self) -> Path:
        return self.path / "keeper.log"

    @property
    def work(self) -> Path:
        return self.path / "work"

    def create(self) -> None:
        """Make the folders (0700). Raises OSError."""
        self.path.mkdir(parents=True, mode=0o700)
        self.work.mkdir(mode=0o700)

    def write_order(self, order: RunOrder) -> None:
        write_json(self.path / "launch.json", {**asdict(order), "env": dict(order.env)})

    def ordered_at(self) -> float:
        """Wall-clock time at which the order was written. Raises FileNotFoundError."""
        return (self.path / "launch.json").stat().st_mtime

    def read_order(self) -> RunOrder:
        """Raises UnreadableFile, FileNotFoundError."""
        path = self.path / "launch.json"
        data = read_json(path)
        return RunOrder(
            argv=_strings(path, data, "argv"),
            env={str(name): str(value) for name, value in expect(path, data, "env", dict).items()},
            cwd=expect(path, data, "cwd", str),
            marker=expect(path, data, "marker", str),
            temporary=expect(path, data, "temporary", str),
            cleanup=_strings(path, data, "cleanup") if "cleanup" in data else (),  # a panel before it wrote none
        )

    def write_process(self, process: RunProcess) -> None:
        write_json(self.path / "process.json", asdict(process))

    def read_process(self) -> RunProcess | None:
        """None when it was not written yet. Raises UnreadableFile."""
        path = self.path / "process.json"
        if not path.exists():
            return None
        data = read_json(path)
        return RunProcess(
            keeper=_identity(path, data, "keeper"),
            leader=_identity(path, data, "leader"),
            marker=expect(path, data, "marker", str),
            temporary=expect(path, data, "temporary", str),
            started_at=float(expect(path, data, "started_at", (int, float))),
        )

    def write_exit(self, ended: RunExit) -> None:
        write_json(self.path / "exit.json", asdict(ended))

    def read_exit(self) -> RunExit | None:
        """None while it has not ended, or when its keeper was killed. Raises UnreadableFile."""
        path = self.path / "exit.json"
        if not path.exists():
            return None
        data = read_json(path)
        return RunExit(
            returncode=expect(path, data, "returncode", (int, type(None))),
            ended_at=float(expect(path, data, "ended_at", (int, float))),
            error=expect(path, data, "error", str),
            leftovers=expect(path, data, "leftovers", int),
            killed=expect(path, data, "killed", int),
            stuck=tuple(int(pid) for pid in expect(path, data, "stuck", list)),
            swept=_strings(path, data, "swept"),
            cleanup_fault=expect(path, data, "cleanup_fault", str) if "cleanup_fault" in data else "",
        )

    def write_shared(self, ours: frozenset[SharedFile], others: frozenset[SharedFile]) -> None:
        files = {"ours": [asdict(file) for file in ours], "others": [asdict(file) for file in others]}
        write_json(self.path / "shared.json", files)

    def read_shared(self) -> tuple[frozenset[SharedFile], frozenset[SharedFile]]:
        """(ours, others); both empty when the keeper saw none. Raises UnreadableFile."""
        path = self.path / "shared.json"
        if not path.exists():
            return frozenset(), frozenset()
        data = read_json(path)
        return _shared(path, data, "ours"), _shared(path, data, "others")


def make_temporary() -> str:
    """A new TMPDIR for one run, outside the run folder: vLLM puts sockets there, whose paths end at 107 bytes."""
    return tempfile.mkdtemp(prefix=_TEMPORARY_PREFIX)


def remove_temporary(path: str) -> None:
    """Remove a run's TMPDIR with all that is in it; anything but a folder that make_temporary() named is left alone."""
    if Path(path).is_absolute() and Path(path).name.startswith(_TEMPORARY_PREFIX):
        shutil.rmtree(path, ignore_errors=True)


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Replace `path` whole, mode 0600: a reader sees the old file or the new one. Raises OSError."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(data, file, indent=1)
    temporary.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file. Raises UnreadableFile, FileNotFoundError."""
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as err:
        raise UnreadableFile(f"{path} cannot be read: {err}") from err
    if not isinstance(data, dict):
        raise UnreadableFile(f"{path} should hold an object, not {type(data).__name__}")
    return data


def expect(path: Path, data: object, key: str, kind: type | tuple[type, ...]) -> Any:
    """data[key], which must be of `kind`. Raises UnreadableFile naming file and key."""
    if not isinstance(data, Mapping) or key not in data:
        raise UnreadableFile(f"{path} has no {key!r}")
    value = data[key]
    if not isinstance(value, kind):
        raise UnreadableFile(f"{path}: {key!r} is {value!r}")
    return value


def _strings(path: Path, data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return tuple(str(item) for item in expect(path, data, key, list))


def _identity(path: Path, data: Mapping[str, Any], key: str) -> ProcessIdentity:
    part = expect(path, data, key, dict)
    return ProcessIdentity(
        pid=expect(path, part, "pid", int),
        start_ticks=expect(path, part, "start_ticks", int),
        boot_id=expect(path, part, "boot_id", str),
    )


def _shared(path: Path, data: Mapping[str, Any], key: str) -> frozenset[SharedFile]:
    return frozenset(
        SharedFile(
            name=expect(path, part, "name", str),
            device=expect(path, part, "device", int),
            inode=expect(path, part, "inode", int),
        )
        for part in expect(path, data, key, list)
    )
