"""States and stages of an engine, as values: the vocabulary shared by engine, page and tests.

STOPPED -> STARTING -> READY <-> UNREACHABLE
              |          |            |
              +----------+------------+--> STOPPING -> STOPPED    as a person asked
              |          |            |          +---> FAILED     it ended by itself and left members, or cannot be ended
              +----------+------------+--> FAILED                 it ended by itself and nothing was left
"""

from dataclasses import dataclass
from enum import StrEnum

from backend.engine.stage import Stage as Stage
from backend.engine.stage import StageProgress as StageProgress


class EngineState(StrEnum):
    """Where an engine is in its life."""

    STOPPED = "stopped"  # not running, and meant not to be
    STARTING = "starting"  # process alive, not yet serving; see Stage
    READY = "ready"  # /health answers 200
    UNREACHABLE = "unreachable"  # process alive, was ready, /health no longer answers
    STOPPING = "stopping"  # being ended; members of its group may still live
    FAILED = "failed"  # ended by itself, or never became ready


RUNNING_STATES = frozenset({EngineState.STARTING, EngineState.READY, EngineState.UNREACHABLE, EngineState.STOPPING})
"""States in which members of the engine's process group may be alive."""

STARTABLE_STATES = frozenset({EngineState.STOPPED, EngineState.FAILED})
"""States from which start() is allowed."""


@dataclass(frozen=True)
class EngineStatus:
    """What is known of an engine now. Replaced whole, never edited.

    Times are wall-clock seconds (time.time) so that they survive a panel restart.
    """

    state: EngineState
    since: float
    run: int | None = None  # number of the current or last run, None before the first
    progress: StageProgress | None = None  # while STARTING
    started_at: float | None = None  # when the current run was spawned
    ready_at: float | None = None
    expected_ready_s: float | None = None  # from earlier runs of this engine, else the preset's hint
    returncode: int | None = None  # negative: ended by that signal; None: unknown or still running
    reason: str = ""  # one sentence, for a person; may quote the engine's own words
    hint: str = ""  # what to do about it
    adopted: bool = False  # found running by a new panel
