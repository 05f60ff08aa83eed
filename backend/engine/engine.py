"""One engine: the only writer of its state. Starts, watches, stops and adopts the processes of one run at a time."""

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from backend.engine.exit_reason import ExitReason, explain_stuck
from backend.engine.log_tail import RING_LINES, LogTail
from backend.engine.memory import CardGauge, no_cards
from backend.engine.memory_release import HeldMemory, held_by_run, until_released
from backend.engine.out_of_memory import read_out_of_memory_kills
from backend.engine.patience import Overdue
from backend.engine.process import age_s, current_boot_id
from backend.engine.record import EngineHistory, EngineRecord, RunSummary, restored_status
from backend.engine.run import EngineRun, clean_up_order, end_marked, find_process
from backend.engine.run_end import Circumstances, explain_end, reached_by
from backend.engine.run_folder import RunExit, UnreadableFile
from backend.engine.run_log import head_lines, read_log
from backend.engine.spawn import check_launchable, spawn_run
from backend.engine.status import (
    RUNNING_STATES,
    STARTABLE_STATES,
    EngineState,
    EngineStatus,
    ShownCare,
    Stage,
    StageProgress,
    StopPhase,
)
from backend.engine.watch import EngineTiming, EngineWatch, Sighting, judge
from backend.errors import LaunchError
from backend.failure.failure import Failure
from backend.launch.plan import LaunchSpec

__all__ = ["Engine", "EngineTiming"]

DEFAULT_GRACE_S = 10.0
OWN_QUESTIONS = re.compile(r'"GET /(?:health|metrics) HTTP/[\d.]+" 200')  # access log lines of our own making
QUIET_END_S = 0.3  # an end quicker than this is shown at once as what it led to

log = logging.getLogger(__name__)


class Engine:
    """An engine and its runs.

    `on_change` is called in the event loop after each new status and each poll that brought log lines.
    Constructing stores only; adopt() reads the disk, start() starts. `cards` tells what is used of the cards' memory.
    """

    def __init__(
        self,
        engine_id: str,
        folder: Path,
        *,
        on_change: Callable[["Engine"], None] | None = None,
        timing: EngineTiming | None = None,
        cards: CardGauge = no_cards,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._engine_id = engine_id
        self._history = EngineHistory(folder)
        self._on_change = on_change
        self._timing = timing or EngineTiming()
        self._cards = cards
        self._clock = clock
        self._wall = wall
        self._status = EngineStatus(state=EngineState.STOPPED, since=0.0)
        self._changed = asyncio.Event()  # set and replaced at every change
        self._log = LogTail(folder / "log")  # nothing is there; begin() and adopt() put a run's log in its place
        self._run: EngineRun | None = None
        self._began_at = 0.0  # of the current run, on our clock
        self._shown_care = ShownCare()
        self._seen_unready = False  # so that the moment of becoming ready is known
        self._reached: StageProgress | None = None  # of a start that is being ended
        self._spawning: asyncio.Task[None] | None = None  # at most one of these three, but for a stop during a spawn
        self._watching: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None

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
        return self._history.record.spec if self._history.record else None

    @property
    def log(self) -> LogTail:
        """The log of the current or last run. Cursors stay valid over a new run; status.run tells that one began."""
        return self._log

    @property
    def runs(self) -> tuple[RunSummary, ...]:
        """The last 20 runs, oldest first, the current one included."""
        return self._history.runs

    @property
    def was_told_to_end(self) -> bool:
        """Whether a person asked for the end of the current or last run."""
        return self._history.record is not None and self._history.record.stopping

    def run_log(self, number: int) -> Iterator[bytes]:
        """The kept log of a run, for download, in bounded pieces; iterating reads the disk. Raises LaunchError."""
        if number not in {run.number for run in self.runs}:
            raise LaunchError(f"Engine {self._engine_id} has no run {number}.", hint="Only the last 20 runs are kept.")
        return read_log(self._history.run_folder(number).log)

    def show_care(self, shown: ShownCare) -> None:
        """Put what its caretaker does into the status. For the caretaker alone."""
        if shown != self._shown_care:
            self._shown_care = shown
            self._set(self._status)

    async def start(self, spec: LaunchSpec) -> None:
        """Spawn a run of `spec`; returns when its process exists (STARTING), long before it is ready.

        Raises LaunchError when the engine runs already or is stopping, argv[0] cannot be executed, or the port is
        taken. A cancelled caller does not cancel the start.
        """
        if self._status.state not in STARTABLE_STATES:
            raise LaunchError(f"{spec.title} is {self._status.state} and cannot be started.", hint="Stop it first.")
        check_launchable(spec)
        marker = f"{self._engine_id}/{self._history.next_number()}/{secrets.token_hex(8)}"
        record = self._history.begin(spec, marker=marker, now=self._wall())
        self._began_at, self._seen_unready = self._clock(), True
        self._log = self._tail(record)
        self._set(restored_status(record))
        self._spawning = self._own(self._spawn(record))
        await asyncio.shield(self._spawning)

    async def stop(self, *, grace_s: float = DEFAULT_GRACE_S) -> None:
        """End the run; returns when no member lives, its shared memory is gone and its cards' memory is free again.

        A driver that does not give the memory back in time is named in the status of the stopped engine.
        While STARTING it is killed at once, since vLLM loses SIGTERM then. Does nothing when nothing runs. A second
        stop joins the first and may shorten its grace. A cancelled caller does not cancel the stop.
        """
        if self._status.state not in RUNNING_STATES:
            return
        if self._ending is None:
            grace_s = 0.0 if self._status.state is EngineState.STARTING else grace_s
            self._show_stopping()
            self._ending = self._own(self._stop_run(grace_s=grace_s))
        elif self._run is not None:
            self._run.kill_after(grace_s)
        await asyncio.shield(self._ending)

    async def adopt(self) -> None:
        """Read the record: go on watching a run that lives, clean up after one that died. Bad files do not raise."""
        try:
            record = self._history.load()
        except UnreadableFile as err:
            await self._give_up_record(err)
            return
        if record is None:
            return
        self._log = self._tail(record)
        self._set(restored_status(record))
        if record.current.outcome is None:
            await self._adopt_run(record)
        else:
            self._log.poll()

    async def close(self) -> None:
        """Stop watching; the engine itself lives on. A start or stop under way is completed first."""
        under_way = [task for task in (self._spawning, self._ending) if task is not None]
        if under_way:
            await asyncio.wait(under_way)
        await self._stop_watching()

    async def wait_until(self, states: Collection[EngineState], *, timeout_s: float) -> EngineStatus:
        """Wait for one of `states`; raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            while self._status.state not in states:
                await self._changed.wait()
        return self._status

    async def _spawn(self, record: EngineRecord) -> None:
        folder = self._history.run_folder(record.current.number)
        deadline_s = self._timing.spawn_deadline_s
        try:
            self._run = await spawn_run(folder, record.spec, marker=record.marker, deadline_s=deadline_s)
        except LaunchError as err:
            failure = Failure("unknown", phase=Stage.SPAWN, last_lines=(err.message,))
            self._conclude(EngineState.FAILED, ExitReason(err.message, err.hint), failure=failure)
            raise
        finally:
            self._spawning = None
        self._watching = self._own(self._watch(self._run, record.spec))

    async def _adopt_run(self, record: EngineRecord) -> None:
        folder = self._history.run_folder(record.current.number)
        process = await find_process(folder, deadline_s=self._timing.spawn_deadline_s)
        if process is None:
            await end_marked(record.marker, deadline_s=self._timing.kill_deadline_s)
            await asyncio.to_thread(clean_up_order, folder)
            reason = "The panel ended while it started this engine, and the engine did not come to life."
            failure = Failure("unknown", phase=Stage.SPAWN, last_lines=(reason,))
            self._conclude(EngineState.FAILED, ExitReason(reason), failure=failure)
            return
        self._run = EngineRun(folder, process=process)
        if process.leader.boot_id != current_boot_id():
            self._ending = self._own(self._end_with_machine(self._run))
            await asyncio.shield(self._ending)
        elif not self._run.is_alive():
            self._ending = self._own(self._end_exited(self._run))
            await asyncio.shield(self._ending)
        elif record.stopping:
            self._show_stopping()
            self._ending = self._own(self._stop_run(grace_s=DEFAULT_GRACE_S))
        else:
            self._began_at = self._clock() - age_s(process.leader)
            self._set(replace(self._status, adopted=True))
            self._note_sighting(Sighting(self._log.poll(), healthy=None, failures=0))
            self._watching = self._own(self._watch(self._run, record.spec))

    async def _give_up_record(self, err: UnreadableFile) -> None:
        """Without its record a run cannot be adopted, so whatever lives of it is ended."""
        log.error("engine %s: %s", self._engine_id, err)
        ended = await end_marked(f"{self._engine_id}/", deadline_s=self._timing.kill_deadline_s)
        reason = f"This engine's record is unreadable: {err}."
        if ended:
            reason += f" {ended} of its processes were still alive and were ended."
        hint = self._history.set_aside()
        self._set(EngineStatus(EngineState.FAILED, since=self._wall(), reason=reason, hint=hint))

    async def _watch(self, run: EngineRun, spec: LaunchSpec) -> None:
        watch = EngineWatch(
            run,
            self._log,
            spec=spec,
            timing=self._timing,
            cards=self._cards,
            clock=self._clock,
            report=self._note_sighting,
        )
        overdue = await watch.until_end(began_at=self._began_at)
        if self._ending is None:
            how = self._end_exited(run) if overdue is None else self._end_overdue(run, overdue)
            self._ending = self._own(how)

    def _note_sighting(self, sighting: Sighting) -> EngineStatus:
        before = self._status
        after = judge(before, sighting, now=self._wall(), failure_limit=self._timing.health_failures)
        if after.ready_at is not None and before.ready_at is None:
            ready_s = self._clock() - self._began_at if self._seen_unready else None
            self._history.note_ready(after.ready_at, ready_s=ready_s)
        self._seen_unready = self._seen_unready or sighting.healthy is False
        if after is not before:
            self._set(after)
        elif sighting.lines:
            self._tell()
        return after

    async def _stop_run(self, *, grace_s: float) -> None:
        """As a person asked."""
        if self._spawning is not None:
            await asyncio.wait({self._spawning})
        await self._stop_watching()
        if self._run is None:
            self._ending = None
            return  # the start failed, and said so
        self._history.note_stopping()
        held = await asyncio.to_thread(held_by_run, self._run, self._history.must_have_record().spec, self._cards())
        self._run.kill_after(grace_s)
        if grace_s > 0:
            self._run.ask_to_end()
        ended = await self._finish(self._run)
        reason = ExitReason("") if ended.stuck else await self._release_memory(held)
        self._conclude(EngineState.STOPPED, reason, ended)

    async def _end_exited(self, run: EngineRun) -> None:
        """After the leader's own death, or one that no panel saw."""
        record = self._history.record
        run.kill_after(self._timing.leftover_grace_s if run.has_keeper() else 0.0)
        ended = await self._finish(run, quiet_s=QUIET_END_S)
        if record is not None and record.stopping:
            self._conclude(EngineState.STOPPED, ExitReason(""), ended)
            return
        await self._conclude_failed(ended)

    async def _end_with_machine(self, run: EngineRun) -> None:
        run.kill_after(0.0)
        reason = ExitReason("The machine was restarted while this engine ran.")
        self._conclude(EngineState.STOPPED, reason, await self._finish(run))

    async def _end_overdue(self, run: EngineRun, overdue: Overdue) -> None:
        run.kill_after(0.0)
        self._show_stopping("The engine is not ready in time and is being ended.")
        await self._conclude_failed(await self._finish(run), overdue)

    async def _conclude_failed(self, ended: RunExit, overdue: Overdue | None = None) -> None:
        """The end of a run that nobody asked for, explained from its log and from what the kernel counted."""
        record, lines = self._history.must_have_record(), self._log.last_lines(RING_LINES)
        if self._status.ready_at is not None:
            reached = StageProgress(Stage.READY)
        else:
            reached = reached_by(self._reached or self._status.progress, lines)
        kills = read_out_of_memory_kills().since(record.kills_before)
        what = Circumstances(ended, reached, record.spec.context, kills, overdue)
        folder = self._history.run_folder(record.current.number).log
        found = await asyncio.to_thread(explain_end, what, lines, head=partial(head_lines, folder))
        self._conclude(EngineState.FAILED, found.reason, ended, failure=found.failure, reached=reached)

    async def _release_memory(self, held: Mapping[str, HeldMemory]) -> ExitReason:
        """Wait until the driver has given it back; what to say when it has not."""
        if not held:
            return ExitReason("")
        self._set(replace(self._status, stop_phase=StopPhase.RELEASING_MEMORY))
        deadline_s = self._timing.release_deadline_s
        if await until_released(self._cards, held, deadline_s=deadline_s):
            return ExitReason("")
        return ExitReason(
            f"Its processes are gone, but {deadline_s:.0f} s later the memory of its cards is not free.",
            "The driver still holds it, or another program has taken it.",
        )

    async def _finish(self, run: EngineRun, *, quiet_s: float = 0.0) -> RunExit:
        """Wait until nothing of the run is left, reading its log meanwhile."""
        finishing = asyncio.create_task(run.finish(kill_deadline_s=self._timing.kill_deadline_s))
        await asyncio.wait({finishing}, timeout=quiet_s)
        if not finishing.done() and self._status.state is not EngineState.STOPPING:
            self._show_stopping("The engine exited by itself; what is left of it is being ended.")
        while not finishing.done():
            await asyncio.wait({finishing}, timeout=self._timing.busy_poll_s)
            if self._log.poll():
                self._tell()
        self._log.poll()
        return finishing.result()

    def _conclude(
        self,
        state: EngineState,
        reason: ExitReason,
        ended: RunExit | None = None,
        *,
        failure: Failure | None = None,
        reached: StageProgress | None = None,
    ) -> None:
        """The run's end, in its history and as the status."""
        if ended is not None and ended.stuck:
            state, reason = EngineState.FAILED, explain_stuck(ended.stuck)
        self._run = self._ending = self._reached = None
        now = self._wall()
        record = self._history.note_end(state, reason, ended, now=now, failure=failure, reached=reached)
        self._set(restored_status(record))

    def _tail(self, record: EngineRecord) -> LogTail:
        folder = self._history.run_folder(record.current.number).log
        return LogTail(folder, after=self._log.last_number, hidden=OWN_QUESTIONS)

    def _show_stopping(self, reason: str = "") -> None:
        self._reached = self._status.progress
        self._set(
            replace(
                self._status,
                state=EngineState.STOPPING,
                stop_phase=StopPhase.ENDING,
                since=self._wall(),
                progress=None,
                reason=reason,
                notices=(),
            )
        )

    async def _stop_watching(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})
            self._watching = None

    def _own(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(self._log_failure)
        return task

    def _log_failure(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None and not isinstance(task.exception(), LaunchError):
            log.error("engine %s is no longer looked after", self._engine_id, exc_info=task.exception())

    def _set(self, status: EngineStatus) -> None:
        care = self._shown_care
        self._status = replace(status, restarts=care.restarts, restart_at=care.restart_at, gave_up=care.gave_up)
        self._changed.set()
        self._changed = asyncio.Event()
        self._tell()

    def _tell(self) -> None:
        if self._on_change is None:
            return
        try:
            self._on_change(self)
        except Exception:  # a fault of whoever looks on must not end the care of a process
            log.exception("on_change of engine %s failed", self._engine_id)
