"""Whether and when an engine is started without a person: after a crash, at boot. Pure decisions."""

from dataclasses import dataclass, field, replace

from backend.engine.status import GaveUp
from backend.failure.failure import UNKNOWN, Failure

USAGE_ERROR = 2  # argparse refused the command: it will again

TRIED_AGAIN = frozenset({"killed", "crashed", "host_memory", "oom_prefill", "nccl_failure"})
"""Rules whose cause may be gone at the next start. Every other one tells something that has to be changed first."""


@dataclass(frozen=True)
class Care:
    """What a person wants done for an engine."""

    autostart: bool = False  # once after each boot of the machine
    restart_on_crash: bool = False


@dataclass(frozen=True)
class CarePolicy:
    """How often a crashed engine is started again, in seconds."""

    delays_s: tuple[float, ...] = (5.0, 20.0, 60.0, 180.0, 600.0)
    limit: int = 5  # crashes within the window that are answered by a restart; the next is not
    window_s: float = 3600.0


@dataclass(frozen=True)
class CareState:
    """All that must survive the panel about the care of one engine. Times are wall-clock seconds."""

    care: Care = field(default_factory=Care)
    judged_run: int = 0  # the last run whose end was decided upon, so that no end is answered twice
    crashes: tuple[float, ...] = ()  # within the window, those that were answered by a restart
    restarts: int = 0  # since a person last started it
    restart_at: float | None = None
    gave_up: GaveUp | None = None

    def touched(self) -> "CareState":
        """After a person started or stopped it: nothing is pending, and counting begins anew."""
        return replace(self, crashes=(), restarts=0, restart_at=None, gave_up=None)

    def restarted(self) -> "CareState":
        """The pending restart has been carried out."""
        return replace(self, restarts=self.restarts + 1, restart_at=None)

    def refused(self) -> "CareState":
        """The pending restart was refused before a process began."""
        return replace(self, restart_at=None, gave_up=GaveUp.REFUSED)


@dataclass(frozen=True)
class RunEnd:
    """How a run ended, as far as care must know."""

    run: int
    is_crash: bool  # FAILED, and nobody had asked for its end
    failure: Failure | None
    returncode: int | None
    was_ready: bool


def after_end(state: CareState, end: RunEnd, *, now: float, policy: CarePolicy) -> CareState:
    """What follows from the end of a run: a restart at some time, giving up, or nothing."""
    state = replace(state, judged_run=end.run, restart_at=None)
    if not end.is_crash or not state.care.restart_on_crash:
        return state
    if not is_worth_a_restart(end):
        return replace(state, gave_up=GaveUp.USELESS)
    recent = tuple(crash for crash in state.crashes if 0 <= now - crash < policy.window_s)
    if len(recent) >= policy.limit:
        return replace(state, crashes=recent, gave_up=GaveUp.LIMIT)
    delay_s = policy.delays_s[min(len(recent), len(policy.delays_s) - 1)]
    return replace(state, crashes=(*recent, now), restart_at=now + delay_s, gave_up=None)


def is_worth_a_restart(end: RunEnd) -> bool:
    """Whether the same start may go well this time."""
    if end.returncode == USAGE_ERROR:
        return False
    if end.failure is None or end.failure.rule == UNKNOWN:
        return end.was_ready
    return end.failure.rule in TRIED_AGAIN
