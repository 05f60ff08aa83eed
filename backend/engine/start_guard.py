"""Guards one start: reads what its processes do and how fast its model's disk is, and tells when it is overdue."""

from collections.abc import Callable
from pathlib import Path

from backend.engine.disk_speed import DiskSpeed, measure_disk_speed
from backend.engine.effort import Effort, read_effort
from backend.engine.patience import Glance, Overdue, Patience, PatienceLimits, PatiencePlan, plan_patience
from backend.engine.run import EngineRun
from backend.engine.side_reading import SideReading
from backend.engine.stage import StageProgress
from backend.launch.plan import LaunchSpec


class StartGuard:
    """One start's patience, with what it has to be told. `began_at` is when the run was spawned, on `clock`."""

    def __init__(
        self,
        run: EngineRun,
        spec: LaunchSpec,
        *,
        limits: PatienceLimits,
        began_at: float,
        clock: Callable[[], float],
        effort_every_s: float,
    ) -> None:
        self._spec = spec
        self._limits = limits
        self._began_at = began_at
        self._clock = clock
        self._effort_every_s = effort_every_s
        self._effort: SideReading[Effort] = SideReading(
            lambda: read_effort(member.pid for member in run.members()), name="effort of a start"
        )
        self._taken: Effort | None = None
        self._effort_due_at = clock()
        self._disk = _disk_reading(spec)
        self._speed: DiskSpeed | None = None
        self._patience = Patience(self._plan(), began=clock() - began_at)

    @property
    def plan(self) -> PatiencePlan:
        """The limits, as far as the disk is known."""
        return self._patience.plan

    def look(self, progress: StageProgress, lines: tuple[str, ...]) -> Overdue | None:
        """Take note of a look at the start; why it is overdue, or None. Never waits."""
        now = self._clock()
        if self._disk is not None and self._speed is None:
            self._note_disk(self._disk)
        if now >= self._effort_due_at:
            self._effort_due_at = now + self._effort_every_s
            self._effort.ask()
        effort = self._effort.latest if self._effort.latest is not self._taken else None
        self._taken = self._effort.latest
        return self._patience.take(Glance(now - self._began_at, progress, lines, effort))

    def _note_disk(self, disk: SideReading[DiskSpeed]) -> None:
        if disk.latest is not None:
            self._speed = disk.latest
            self._patience.plan = self._plan()
        else:
            disk.ask()

    def _plan(self) -> PatiencePlan:
        measured = self._speed
        return plan_patience(
            model_bytes=self._spec.model_bytes or (measured.model_bytes if measured else None),
            bytes_per_s=measured.bytes_per_s if measured else None,
            timeout_s=self._spec.ready_timeout_s,
            limits=self._limits,
        )


def _disk_reading(spec: LaunchSpec) -> SideReading[DiskSpeed] | None:
    """None when nobody knows where the model lies."""
    model = spec.context.model
    if not model:
        return None
    return SideReading(lambda: measure_disk_speed(Path(model)), name="disk speed")
