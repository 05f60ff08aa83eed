"""What an engine writes down so that a new panel can adopt it: record.json, with its spec and the sum of its runs."""

import logging
import shutil
import statistics
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from backend.engine.exit_reason import ExitReason
from backend.engine.out_of_memory import OutOfMemoryKills, read_out_of_memory_kills
from backend.engine.run_folder import RunExit, RunFolder, UnreadableFile, write_json
from backend.engine.status import EngineState, EngineStatus, Stage, StageProgress
from backend.errors import LaunchError
from backend.failure.failure import Failure
from backend.launch.plan import LaunchSpec

KEPT_RUNS = 20

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunSummary:
    """One run, for history and for the expected time to ready. Times are wall-clock seconds."""

    number: int
    started_at: float
    ready_at: float | None = None  # first seen ready
    ready_s: float | None = None  # from spawn to ready; None as well when it became so while no panel looked
    ended_at: float | None = None  # None while running
    outcome: EngineState | None = None  # STOPPED or FAILED; None while running
    returncode: int | None = None
    failure: Failure | None = None  # of a FAILED run
    reached: StageProgress | None = None  # of a FAILED run: how far it had come
    reason: str = ""
    hint: str = ""


@dataclass(frozen=True)
class EngineRecord:
    """All that must survive the panel about one engine. The last of `runs` is the current one."""

    spec: LaunchSpec
    marker: str  # of the current run
    runs: Annotated[tuple[RunSummary, ...], Field(min_length=1)]
    stopping: bool = False  # a person asked for the end of the current run
    kills_before: OutOfMemoryKills = OutOfMemoryKills()  # when the current run began

    @property
    def current(self) -> RunSummary:
        return self.runs[-1]

    def with_current(self, run: RunSummary) -> "EngineRecord":
        """The record with its current run replaced."""
        return replace(self, runs=(*self.runs[:-1], run))


_ADAPTER = TypeAdapter(EngineRecord)


def expected_ready_s(record: EngineRecord) -> float | None:
    """Median of this engine's earlier times to ready, else the spec's hint."""
    times = [run.ready_s for run in record.runs if run.ready_s is not None]
    return statistics.median(times) if times else record.spec.expected_ready_s


def restored_status(record: EngineRecord) -> EngineStatus:
    """What the record alone tells of the engine: the end of its last run, or that it should be running."""
    run = record.current
    if run.outcome is not None:
        state, since, progress = run.outcome, run.ended_at or run.started_at, run.reached
    elif run.ready_at is not None:
        state, since, progress = EngineState.READY, run.ready_at, StageProgress(Stage.READY)
    else:
        state, since, progress = EngineState.STARTING, run.started_at, StageProgress(Stage.SPAWN)
    return EngineStatus(
        state,
        since=since,
        run=run.number,
        progress=progress,
        started_at=run.started_at,
        ready_at=run.ready_at,
        expected_ready_s=expected_ready_s(record),
        returncode=run.returncode,
        failure=run.failure,
        reason=run.reason,
        hint=run.hint,
    )


def save_record(path: Path, record: EngineRecord) -> None:
    """Replace the record on disk, mode 0600: the spec's env may hold keys. Raises OSError."""
    write_json(path, _ADAPTER.dump_python(record, mode="json"))


def load_record(path: Path) -> EngineRecord | None:
    """The record, None when there is none. Raises UnreadableFile naming what is wrong with it."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as err:
        raise UnreadableFile(f"{path} cannot be read: {err}") from err
    try:
        record: EngineRecord = _ADAPTER.validate_json(text)
    except ValidationError as err:
        first = err.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise UnreadableFile(f"{path}: {place}: {first['msg']}") from err
    return record


class EngineHistory:
    """The record of one engine and the folders of its runs, kept together. One writer: the engine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._record: EngineRecord | None = None

    @property
    def record(self) -> EngineRecord | None:
        """What load() found or begin() wrote; None before the first run."""
        return self._record

    def must_have_record(self) -> EngineRecord:
        """The record, of an engine that has begun a run."""
        if self._record is None:
            raise RuntimeError("this engine never began a run")
        return self._record

    @property
    def runs(self) -> tuple[RunSummary, ...]:
        """The kept runs, oldest first."""
        return self._record.runs if self._record else ()

    @property
    def path(self) -> Path:
        return self._folder / "record.json"

    def run_folder(self, number: int) -> RunFolder:
        """Where run `number` lies."""
        return RunFolder(self._folder / "runs" / str(number))

    def load(self) -> EngineRecord | None:
        """Read the record from disk. Raises UnreadableFile."""
        self._record = load_record(self.path)
        return self._record

    def set_aside(self) -> str:
        """Move an unreadable record out of the way, for a person to look at; returns a sentence on where it is."""
        try:
            return f"The unreadable file was kept as {self.path.replace(self.path.with_suffix('.unreadable'))}."
        except OSError as err:
            return f"The unreadable file could not be moved out of the way: {err}."

    def next_number(self) -> int:
        """A run number never used before, whatever became of the record."""
        used = [run.number for run in self.runs] + [int(path.name) for path in self._folders()]
        return max(used, default=0) + 1

    def begin(self, spec: LaunchSpec, *, marker: str, now: float) -> EngineRecord:
        """Write down that a new run begins, and drop all but the newest runs. Raises LaunchError."""
        run = RunSummary(self.next_number(), started_at=now)
        runs = (*self.runs, run)[-KEPT_RUNS:]
        record = EngineRecord(spec, marker, runs, kills_before=read_out_of_memory_kills())
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            save_record(self.path, record)
        except OSError as err:
            raise LaunchError(f"{self.path} cannot be written: {err}.", hint="The disk may be full.") from err
        self._record = record
        kept = {str(kept.number) for kept in record.runs}
        for path in self._folders():
            if path.name not in kept:
                shutil.rmtree(path, ignore_errors=True)
        return record

    def note_stopping(self) -> None:
        """Write down that the current run is meant to end."""
        if self._record:
            self._save(replace(self._record, stopping=True))

    def note_ready(self, ready_at: float, *, ready_s: float | None) -> None:
        """Write down when the current run was first seen ready."""
        if self._record:
            self._save(self._record.with_current(replace(self._record.current, ready_at=ready_at, ready_s=ready_s)))

    def note_end(
        self,
        outcome: EngineState,
        reason: ExitReason,
        ended: RunExit | None,
        *,
        now: float,
        failure: Failure | None = None,
        reached: StageProgress | None = None,
    ) -> EngineRecord:
        """Write down how the current run ended; `ended` is None when it never came to life."""
        record = self.must_have_record()
        run = replace(
            record.current,
            ended_at=ended.ended_at if ended else now,
            outcome=outcome,
            returncode=ended.returncode if ended else None,
            failure=failure,
            reached=reached,
            reason=reason.reason,
            hint=reason.hint,
        )
        return self._save(record.with_current(run))

    def _save(self, record: EngineRecord) -> EngineRecord:
        self._record = record
        try:
            save_record(self.path, record)
        except OSError as err:  # the engine goes on; a new panel would see the older record
            log.error("%s cannot be written: %s", self.path, err)
        return record

    def _folders(self) -> list[Path]:
        try:
            return [path for path in (self._folder / "runs").iterdir() if path.name.isdecimal()]
        except (FileNotFoundError, NotADirectoryError):
            return []
