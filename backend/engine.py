"""One engine: the only writer of its state. Starts, watches, stops and adopts the processes of one run at a time."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from backend.engine_record import RunSummary
from backend.engine_status import EngineState, EngineStatus
from backend.launch import LaunchSpec
from backend.log_tail import LogTail


@dataclass(frozen=True)
class EngineTiming:
    """How often an engine is looked at and how long its parts may take, in seconds."""

    busy_poll_s: float = 0.2  # while starting or stopping
    calm_poll_s: float = 1.0  # when ready
    health_every_s: float = 2.0  # when ready; while starting it is asked at every poll
    health_timeout_s: float = 2.0
    health_failures: int = 3  # in a row, until a living engine is UNREACHABLE
    spawn_deadline_s: float = 10.0  # until the keeper has written its process file
    kill_deadline_s: float = 10.0  # from SIGKILL until no member lives


class Engine:
    """An engine and its runs.

    `on_change` is called in the event loop after each new status and each poll that brought log lines.
    Constructing stores only; adopt() reads the disk, start() starts.
    """

    def __init__(
        self,
        engine_id: str,
        folder: Path,
        *,
        on_change: Callable[["Engine"], None] | None = None,
        timing: EngineTiming | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._engine_id = engine_id
        self._folder = folder
        self._on_change = on_change
        self._timing = timing or EngineTiming()
        self._clock = clock
        self._wall = wall
        self._status = EngineStatus(state=EngineState.STOPPED, since=0.0)
        self._spec: LaunchSpec | None = None
        self._log = LogTail(folder / "runs" / "0" / "log")
        self._runs: tuple[RunSummary, ...] = ()

    @property
    def engine_id(self) -> str:
        return self._engine_id

    @property
    def status(self) -> EngineStatus:
        """What is known now. Replaced whole at every change."""
        return self._status

    @property
    def spec(self) -> LaunchSpec | None:
        """What the current or last run was started with; None before the first."""
        return self._spec

    @property
    def log(self) -> LogTail:
        """The log of the current or last run. Cursors stay valid over a new run; status.run tells that one began."""
        return self._log

    @property
    def runs(self) -> tuple[RunSummary, ...]:
        """The last 20 runs, oldest first, the current one included."""
        return self._runs

    async def start(self, spec: LaunchSpec) -> None:
        """Spawn a run of `spec`; returns when its process exists (STARTING), long before it is ready.

        Raises LaunchError when the engine runs already or is stopping, argv[0] cannot be executed, or the port is
        taken.
        """
        raise NotImplementedError

    async def stop(self, *, grace_s: float = 10.0) -> None:
        """End the run; returns when no member lives and its shared memory is gone.

        While STARTING it is killed at once, since vLLM loses SIGTERM then. Does nothing when nothing runs. A second
        stop joins the first and may shorten its grace. A cancelled caller does not cancel the stop.
        """
        raise NotImplementedError

    async def adopt(self) -> None:
        """Read the record: go on watching a run that lives, clean up after one that died. Bad files do not raise."""
        raise NotImplementedError

    async def close(self) -> None:
        """Stop watching. The engine itself lives on."""
        raise NotImplementedError

    async def wait_until(self, states: Collection[EngineState], *, timeout_s: float) -> EngineStatus:
        """Wait for one of `states`; raises TimeoutError."""
        raise NotImplementedError
