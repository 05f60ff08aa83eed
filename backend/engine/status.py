"""States of an engine and all that is known of one now, as values: the vocabulary shared by engine, page and tests.

STOPPED -> STARTING -> READY <-> UNREACHABLE
              |          |            |
              +----------+------------+--> STOPPING -> STOPPED    as a person asked
              |          |            |          +---> FAILED     it ended by itself and left members, or cannot be ended
              +----------+------------+--> FAILED                 it ended by itself and nothing was left
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from backend.engine.stage import Stage as Stage
from backend.engine.stage import StageProgress as StageProgress
from backend.failure.failure import Failure
from backend.reading import Reading


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


class StopPhase(StrEnum):
    """What an engine that is STOPPING waits for."""

    ENDING = "ending"  # its processes
    RELEASING_MEMORY = "releasing_memory"  # they are gone; the driver has not given back their cards' memory yet


class NoticeKey(StrEnum):
    """Why a ready engine is slow."""

    PREEMPTING = (
        "preempting"  # requests lost their KV blocks and are computed again; values: count, minutes, kv_percent
    )
    KV_FULL = "kv_full"  # requests wait for KV blocks; values: waiting, kv_percent
    OFFLOADING = "offloading"  # KV blocks move between card and host memory; values: megabytes, minutes


@dataclass(frozen=True)
class Notice:
    """Something a person should know of a ready engine, as long as it holds."""

    key: NoticeKey
    values: Mapping[str, str] = field(default_factory=dict)  # numbers as text, by the names that NoticeKey lists


class GaveUp(StrEnum):
    """Why a crashed engine is not started again although it should be."""

    LIMIT = "limit"  # it crashed too often within an hour
    USELESS = "useless"  # the same start would fail the same way
    REFUSED = "refused"  # the start was refused, see the log of the panel: port taken, program gone


@dataclass(frozen=True)
class ShownCare:
    """What is done for an engine without a person: its caretaker's part of the status."""

    restarts: int = 0
    restart_at: float | None = None
    gave_up: GaveUp | None = None


@dataclass(frozen=True)
class EngineStatus:
    """What is known of an engine now. Replaced whole, never edited.

    Times are wall-clock seconds (time.time) so that they survive a panel restart.
    """

    state: EngineState
    since: float
    run: int | None = None  # number of the current or last run, None before the first
    progress: StageProgress | None = None  # while STARTING; when FAILED, how far it had come
    started_at: float | None = None  # when the current run was spawned
    ready_at: float | None = None
    expected_ready_s: float | None = None  # from earlier runs of this engine, else the preset's hint
    returncode: int | None = None  # negative: ended by that signal; None: unknown or still running
    failure: Failure | None = None  # of a FAILED engine: the cause, for the page to say in its language
    reason: str = ""  # the same as one English sentence, for logs; may quote the engine's own words
    hint: str = ""  # what to do about it, in English
    stop_phase: StopPhase | None = None  # while STOPPING
    adopted: bool = False  # found running by a new panel
    memory_bytes: Reading[int] | None = None  # of the machine's memory, shared pages by their share; None: not read yet
    gpu_memory_bytes: Reading[int] | None = None  # of its cards; None without cards, or not read yet
    notices: tuple[Notice, ...] = ()  # why it is slow, while it is
    restarts: int = 0  # after crashes, since a person last started it
    restart_at: float | None = None  # it crashed and will be started again then
    gave_up: GaveUp | None = None  # it crashed and will not be started again, although restart on crash is set
