"""Why a run ended: its log, exit code and circumstances put together for the rules, and the English sentence of it."""

import logging
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from backend.engine.exit_reason import ExitReason, explain_exit
from backend.engine.patience import Overdue
from backend.engine.run_folder import RunExit
from backend.engine.stage import Stage, StageProgress
from backend.engine.startup_stage import advance
from backend.failure.explain import explain
from backend.failure.failure import LAST_LINES, LINE_CHARACTERS, UNKNOWN, Failure, LaunchContext
from backend.failure.words import english

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Circumstances:
    """What is known of a run's end besides its log."""

    ended: RunExit
    reached: StageProgress  # how far it had come
    context: LaunchContext
    out_of_memory_kills: int | None = None  # while it ran, on the machine or in its group; None: not counted
    overdue: Overdue | None = None  # it was ended because of that


@dataclass(frozen=True)
class Explanation:
    """For the page, and for logs."""

    failure: Failure
    reason: ExitReason


def explain_end(what: Circumstances, lines: Sequence[str], *, head: Callable[[], Sequence[str]]) -> Explanation:
    """The explanation of a run that ended by itself. Takes a tenth of a second: call it off the loop.

    `lines` are the newest of its log, oldest first. `head` gives the first ones, and is asked when a flood may have
    pushed the cause out of `lines`.
    """
    failure = _explain(what, lines)
    if not failure.is_known:
        first = head()
        if first and (not lines or first[0] != lines[0]):
            from_head = _explain(what, first)
            failure = from_head if from_head.is_known else failure
    return Explanation(failure, _sentence(what, failure, lines))


def reached_by(progress: StageProgress | None, lines: Sequence[str]) -> StageProgress:
    """How far a start had come, when nobody may have watched it: never behind what was seen."""
    reached = progress or StageProgress(Stage.SPAWN)
    for line in lines:
        reached = advance(reached, line)
    return reached


def _explain(what: Circumstances, lines: Sequence[str]) -> Failure:
    ended = what.ended
    phase = None if what.reached.stage is Stage.READY else what.reached.stage
    # without a code the keeper was killed, and the kernel killed the leader for it
    returncode = -signal.SIGKILL if ended.returncode is None and not ended.error else ended.returncode
    try:
        return explain(
            lines,
            returncode=returncode,
            phase=phase,
            context=what.context,
            error=ended.error,
            out_of_memory_kills=what.out_of_memory_kills,
            overdue=what.overdue,
        )
    except Exception:  # a log that the rules stumble over must not leave the run without an end
        log.exception("the end of a run could not be explained")
        return Failure(UNKNOWN, phase=phase, last_lines=tuple(line[:LINE_CHARACTERS] for line in lines[-LAST_LINES:]))


def _sentence(what: Circumstances, failure: Failure, lines: Sequence[str]) -> ExitReason:
    if not failure.is_known:
        return explain_exit(what.ended, lines, was_ready=what.reached.stage is Stage.READY)
    words = english(failure)
    return ExitReason(f"{words.what} {words.cause}".strip(), words.do)
