"""Watches one living run: what is seen of it at each look, and what that makes of the engine's status."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from backend.engine.gauges import Gauges, RunGauges
from backend.engine.health_probe import HealthProbe
from backend.engine.listener import is_strangers
from backend.engine.log_tail import LogTail
from backend.engine.memory import CardGauge
from backend.engine.patience import Overdue, PatienceLimits
from backend.engine.run import EngineRun
from backend.engine.start_guard import StartGuard
from backend.engine.startup_stage import advance
from backend.engine.status import EngineState, EngineStatus, Stage, StageProgress
from backend.launch.plan import LaunchSpec


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
    leftover_grace_s: float = 5.0  # for the keeper to end what lives on after a leader that died by itself
    gauges_every_s: float = 10.0  # memory, metrics
    effort_every_s: float = 5.0  # while starting: bytes read, processor time
    release_deadline_s: float = 60.0  # for the driver to give back an ended engine's memory
    patience: PatienceLimits = field(default_factory=PatienceLimits)


@dataclass(frozen=True)
class Sighting:
    """What one look showed."""

    lines: tuple[str, ...]  # of the log, new or replaced
    healthy: bool | None  # the last answer of /health was 200, and this engine's own; None before the first
    failures: int  # failed answers in a row
    gauges: Gauges | None = None  # None: nothing new


def judge(status: EngineStatus, sighting: Sighting, *, now: float, failure_limit: int) -> EngineStatus:
    """The status after a look; the same object when nothing changed. `now` is wall clock."""
    after = _judge_state(status, sighting, now=now, failure_limit=failure_limit)
    gauges = sighting.gauges
    if gauges is None or after.state not in (EngineState.STARTING, EngineState.READY, EngineState.UNREACHABLE):
        return after
    if (after.memory_bytes, after.gpu_memory_bytes, after.notices) == (
        gauges.memory_bytes,
        gauges.gpu_memory_bytes,
        gauges.notices,
    ):
        return after
    return replace(
        after,
        memory_bytes=gauges.memory_bytes,
        gpu_memory_bytes=gauges.gpu_memory_bytes,
        notices=gauges.notices,
    )


def _judge_state(status: EngineStatus, sighting: Sighting, *, now: float, failure_limit: int) -> EngineStatus:
    match status.state:
        case EngineState.STARTING if sighting.healthy:
            progress = StageProgress(Stage.READY)
            return replace(status, state=EngineState.READY, since=now, ready_at=now, progress=progress)
        case EngineState.STARTING:
            progress = status.progress or StageProgress(Stage.SPAWN)
            for line in sighting.lines:
                progress = advance(progress, line)
            return status if progress == status.progress else replace(status, progress=progress)
        case EngineState.READY if sighting.failures >= failure_limit:
            reason = f"The engine's process lives, but /health failed {sighting.failures} times in a row."
            return replace(status, state=EngineState.UNREACHABLE, since=now, reason=reason)
        case EngineState.UNREACHABLE if sighting.healthy:
            return replace(status, state=EngineState.READY, since=now, reason="")
    return status


class EngineWatch:
    """Looks at a run until it ends. `report` gets each sighting and returns the status it led to."""

    def __init__(
        self,
        run: EngineRun,
        log: LogTail,
        *,
        spec: LaunchSpec,
        timing: EngineTiming,
        cards: CardGauge,
        clock: Callable[[], float],
        report: Callable[[Sighting], EngineStatus],
    ) -> None:
        self._run = run
        self._log = log
        self._spec = spec
        self._timing = timing
        self._cards = cards
        self._clock = clock
        self._report = report

    async def until_end(self, *, began_at: float) -> Overdue | None:
        """Returns None when the leader is dead, and why when a start is overdue. May be cancelled.

        `began_at` is when the run was spawned, on the clock given.
        """
        probe = HealthProbe(f"{self._spec.base_url}/health", timeout_s=self._timing.health_timeout_s)
        gauges, guard = self._gauges(), self._guard(began_at)
        state = EngineState.STARTING
        next_question = self._clock()
        try:
            while True:
                lines = self._log.poll()
                is_serving = state is EngineState.READY
                healthy = await self._is_healthy(probe, is_starting=state is EngineState.STARTING)
                status = self._report(Sighting(lines, healthy, probe.failures, gauges.look(is_serving=is_serving)))
                state, is_starting = status.state, status.state is EngineState.STARTING
                if not self._run.is_alive():
                    return None
                if is_starting and status.progress and (overdue := guard.look(status.progress, lines)):
                    return overdue
                if is_starting or self._clock() >= next_question:
                    probe.ask()
                    next_question = self._clock() + self._timing.health_every_s
                await asyncio.sleep(self._timing.busy_poll_s if is_starting else self._timing.calm_poll_s)
        finally:
            await probe.close()
            await gauges.close()

    async def _is_healthy(self, probe: HealthProbe, *, is_starting: bool) -> bool | None:
        """The last answer; the one that makes an engine ready has to come from the engine itself."""
        if probe.is_healthy and is_starting:
            return await asyncio.to_thread(self._answers_itself)
        return probe.is_healthy

    def _gauges(self) -> RunGauges:
        return RunGauges(
            self._run,
            base_url=self._spec.base_url,
            cards=self._cards,
            every_s=self._timing.gauges_every_s,
            clock=self._clock,
        )

    def _guard(self, began_at: float) -> StartGuard:
        return StartGuard(
            self._run,
            self._spec,
            limits=self._timing.patience,
            began_at=began_at,
            clock=self._clock,
            effort_every_s=self._timing.effort_every_s,
        )

    def _answers_itself(self) -> bool:
        """Another server may have taken the port since it was found free; its answer would be shown as ours."""
        return not is_strangers(self._spec.port, (member.pid for member in self._run.members()))
