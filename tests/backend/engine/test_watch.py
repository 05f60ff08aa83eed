"""What a look makes of the status, decided without a process."""

import pytest

from backend.engine.status import EngineState, EngineStatus, Stage, StageProgress
from backend.engine.watch import Sighting, judge

STARTING = EngineStatus(EngineState.STARTING, since=10.0, run=1, progress=StageProgress(Stage.SPAWN), started_at=10.0)
READY = EngineStatus(EngineState.READY, since=20.0, run=1, ready_at=20.0, started_at=10.0)
UNREACHABLE = EngineStatus(EngineState.UNREACHABLE, since=30.0, ready_at=20.0, started_at=10.0, reason="no answer")


def look(
    status: EngineStatus, *lines: str, healthy: bool | None = None, failures: int = 0, now: float = 99.0
) -> EngineStatus:
    return judge(status, Sighting(lines, healthy, failures), now=now, failure_limit=3)


def test_a_start_moves_through_the_log_and_since_stays() -> None:
    status = look(STARTING, "INFO Starting to load model /m...", "INFO CPU KV cache size: 5 tokens")
    assert status.progress == StageProgress(Stage.KV_CACHE)
    assert (status.state, status.since) == (EngineState.STARTING, 10.0)


def test_only_health_makes_it_ready_and_never_a_log_line() -> None:
    line = "INFO: Application startup complete."
    assert look(STARTING, line, healthy=False).state is EngineState.STARTING
    status = look(STARTING, line, healthy=True)
    assert (status.state, status.since, status.ready_at, status.started_at) == (EngineState.READY, 99.0, 99.0, 10.0)
    assert status.progress == StageProgress(Stage.READY)


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_a_ready_engine_may_miss_two_answers(failures: int) -> None:
    assert look(READY, healthy=False, failures=failures) is READY


def test_the_third_missed_answer_makes_it_unreachable_and_an_answer_ready_again() -> None:
    lost = look(READY, healthy=False, failures=3)
    assert (lost.state, lost.since, lost.ready_at) == (EngineState.UNREACHABLE, 99.0, 20.0)
    assert "3 times in a row" in lost.reason
    back = look(lost, healthy=True, now=120.0)
    assert (back.state, back.since, back.ready_at, back.reason) == (EngineState.READY, 120.0, 20.0, "")


def test_an_unreachable_engine_stays_so_without_an_answer() -> None:
    assert look(UNREACHABLE, healthy=False, failures=9) is UNREACHABLE


@pytest.mark.parametrize("state", [EngineState.STOPPED, EngineState.STOPPING, EngineState.FAILED])
def test_a_look_changes_no_other_state(state: EngineState) -> None:
    status = EngineStatus(state, since=1.0)
    assert look(status, "INFO Starting to load model", healthy=True, failures=5) is status


def test_nothing_new_is_the_same_object() -> None:
    assert look(STARTING) is STARTING
    assert look(READY, "a line", healthy=True) is READY
