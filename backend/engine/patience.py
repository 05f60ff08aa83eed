"""How long a start may take. Pure: what was seen in, whether and why it is overdue out.

A model of 27 GB from a disk of 100 MB/s loads for five minutes, a small one from NVMe for one second: no fixed limit
suits both. So three rules hold, each with a reason that a person is told:

    stalled    nothing has moved for some minutes: no new log line, no percent, no bytes read, no compilation
    too slow   it moves, but is beyond the ceiling: several times what model and disk explain
    timeout    the preset names a limit, and it is over
"""

import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from backend.engine.effort import Effort
from backend.engine.stage import Stage, StageProgress

PESSIMISTIC_BYTES_PER_S = 100e6  # a disk that could not be measured; a hard disk reads so
REMEMBERED_LINES = 64
MOVED_BYTES = 1024 * 1024  # since bytes last moved; less is heartbeats and polling
MOVED_CPU_SHARE = 0.25  # of one core

_COMPUTING = frozenset({Stage.IMPORTS, Stage.WARM_UP})
"""Stages in which processor time shows work. While loading, a worker that waits for another spins on a core as well."""

_WAITING = re.compile(
    r"\bwait(?:ing|ed|s)?\b|\bretry(?:ing)?\b|\btimed? ?out\b|No available shared memory broadcast block|"
    r"still (?:loading|running|alive)|heartbeat|health check",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+")
_PERCENT = re.compile(r"\b(\d{1,3})(?:\.\d+)?%")


@dataclass(frozen=True)
class PatienceLimits:
    """All waits, in seconds."""

    quiet_s: Mapping[Stage, float] = field(
        default_factory=lambda: {
            Stage.SPAWN: 120.0,
            Stage.IMPORTS: 300.0,
            Stage.WEIGHTS: 300.0,
            Stage.KV_CACHE: 600.0,
            Stage.WARM_UP: 900.0,  # a kernel may compile that long without a word, and not on the processor we watch
        }
    )  # how long nothing may move
    base_s: Mapping[Stage, float] = field(
        default_factory=lambda: {
            Stage.SPAWN: 10.0,
            Stage.IMPORTS: 120.0,  # without byte code, on a slow disk
            Stage.WEIGHTS: 30.0,
            Stage.KV_CACHE: 60.0,
            Stage.WARM_UP: 300.0,
        }
    )  # what a stage may take besides reading the weights
    slack: float = 4.0  # the ceiling is so many times what is expected
    least_ceiling_s: float = 1800.0
    most_ceiling_s: float = 6 * 3600.0


@dataclass(frozen=True)
class PatiencePlan:
    """The limits of one start."""

    limits: PatienceLimits
    expected_s: Mapping[Stage, float]  # how long each stage may take when all is well
    ceiling_s: float  # from the spawn; nothing is waited for beyond it
    timeout_s: float | None  # the preset's own limit, from the spawn

    @property
    def ready_within_s(self) -> float:
        """When a start that moves as expected is ready at the latest."""
        expected_s = sum(self.expected_s.values())
        return expected_s if self.timeout_s is None else min(expected_s, self.timeout_s)


def plan_patience(
    *,
    model_bytes: int | None,
    bytes_per_s: float | None,
    timeout_s: float | None,
    limits: PatienceLimits,
) -> PatiencePlan:
    """The limits for a model of this size on a disk of this speed. Unknown size counts as none, unknown speed as slow."""
    reading_s = (model_bytes or 0) / (bytes_per_s or PESSIMISTIC_BYTES_PER_S)
    expected_s = {
        stage: base_s + (reading_s if stage is Stage.WEIGHTS else 0.0) for stage, base_s in limits.base_s.items()
    }
    ceiling_s = min(max(limits.slack * sum(expected_s.values()), limits.least_ceiling_s), limits.most_ceiling_s)
    return PatiencePlan(limits, expected_s, ceiling_s, timeout_s)


class OverdueKind(StrEnum):
    """Which limit was passed."""

    STALLED = "stalled"
    TOO_SLOW = "too_slow"
    TIMEOUT = "timeout"


@dataclass(frozen=True)
class Overdue:
    """Why a start is not waited for any longer."""

    kind: OverdueKind
    stage: Stage
    waited_s: float  # since the spawn
    quiet_s: float  # since anything moved
    last_line: str  # the last line that was no repeat; "" when there was none
    limit_s: float  # the limit that was passed


@dataclass(frozen=True)
class Glance:
    """What one look at a starting engine showed."""

    now: float  # seconds since the spawn
    progress: StageProgress
    lines: tuple[str, ...] = ()  # of the log, new or replaced
    effort: Effort | None = None  # None when it was not read at this look


class Patience:
    """Follows one start. Knows no clock and no process: take() is told everything.

    `began` is when the following begins, in seconds since the spawn: a later panel gives a start it adopts a full
    quiet time, because it does not know when that one last moved.
    """

    def __init__(self, plan: PatiencePlan, *, began: float = 0.0) -> None:
        self.plan = plan
        self._moved_at = began
        self._progress = StageProgress(Stage.SPAWN)
        self._last_line = ""
        self._known: deque[str] = deque(maxlen=REMEMBERED_LINES)
        self._effort: Effort | None = None
        self._effort_at = began

    def take(self, glance: Glance) -> Overdue | None:
        """Take note of a look; why the start is overdue, or None while it is waited for."""
        moved = [self._note_lines(glance.lines), self._note_progress(glance.progress), self._note_effort(glance)]
        if any(moved):
            self._moved_at = glance.now
        return self._judge(glance.now)

    def _judge(self, now: float) -> Overdue | None:
        stage = self._progress.stage
        plan, quiet_s = self.plan, now - self._moved_at
        limits = (
            (OverdueKind.TIMEOUT, now, plan.timeout_s),
            (OverdueKind.TOO_SLOW, now, plan.ceiling_s),
            (OverdueKind.STALLED, quiet_s, plan.limits.quiet_s.get(stage)),
        )
        for kind, passed_s, limit_s in limits:
            if limit_s is not None and passed_s >= limit_s:
                return Overdue(kind, stage, now, quiet_s, self._last_line, limit_s)
        return None

    def _note_progress(self, progress: StageProgress) -> bool:
        moved = progress != self._progress
        self._progress = progress
        return moved

    def _note_lines(self, lines: Iterable[str]) -> bool:
        """Whether one of them says something new: not the words of an earlier one with other figures, no waiting."""
        moved = False
        for line in lines:
            percent = _PERCENT.findall(line)
            words = f"{_NUMBER.sub('#', line)} {percent}"
            if not line.strip() or words in self._known or _WAITING.search(line):
                continue
            self._known.append(words)
            self._last_line = line
            moved = True
        return moved

    def _note_effort(self, glance: Glance) -> bool:
        """Whether bytes or processor time have grown enough. A member that ended makes the sums fall: begin anew."""
        now, before = glance.effort, self._effort
        if now is None:
            return False
        read, read_before = now.read_bytes or 0, (before.read_bytes or 0) if before else 0
        cpu_s = now.cpu_s - before.cpu_s if before else 0.0
        has_read = before is not None and read - read_before >= MOVED_BYTES
        passed_s = glance.now - self._effort_at
        has_computed = (
            before is not None
            and glance.progress.stage in _COMPUTING
            and passed_s > 0
            and cpu_s / passed_s >= MOVED_CPU_SHARE
        )
        keep_bytes = before is not None and not has_read and read >= read_before  # small reads add up to a move
        self._effort = Effort(read_before if keep_bytes else read, now.cpu_s)
        self._effort_at = glance.now
        return has_read or has_computed
