"""When an engine is started again without a person, decided without one."""

from dataclasses import replace

import pytest

from backend.engine.care import Care, CarePolicy, CareState, RunEnd, after_end, is_worth_a_restart
from backend.engine.status import GaveUp
from backend.failure.failure import Failure

POLICY = CarePolicy()
CARED = CareState(Care(restart_on_crash=True))
CRASH = RunEnd(run=1, is_crash=True, failure=Failure("crashed"), returncode=-11, was_ready=True)


def test_a_crash_is_answered_later_and_later_and_then_no_more() -> None:
    state, now, delays = CARED, 1000.0, []
    for run in range(1, 6):
        state = after_end(state, replace(CRASH, run=run), now=now, policy=POLICY)
        assert state.restart_at is not None
        delays.append(state.restart_at - now)
        now = state.restart_at + 30.0
        state = state.restarted()
    assert delays == [5.0, 20.0, 60.0, 180.0, 600.0]
    state = after_end(state, replace(CRASH, run=6), now=now, policy=POLICY)
    assert (state.restart_at, state.gave_up, state.restarts) == (None, GaveUp.LIMIT, 5)


def test_crashes_of_more_than_an_hour_ago_are_forgotten() -> None:
    state = replace(CARED, crashes=(0.0, 10.0, 20.0, 30.0, 5000.0))
    after = after_end(state, CRASH, now=5010.0, policy=POLICY)
    assert (after.crashes, after.restart_at) == ((5000.0, 5010.0), 5030.0)


def test_without_the_wish_nothing_follows_but_the_end_is_judged() -> None:
    assert after_end(CareState(), CRASH, now=0.0, policy=POLICY) == CareState(judged_run=1)


def test_an_end_that_was_asked_for_is_no_crash() -> None:
    after = after_end(CARED, replace(CRASH, is_crash=False), now=0.0, policy=POLICY)
    assert (after.restart_at, after.gave_up) == (None, None)


@pytest.mark.parametrize("rule", ["killed", "crashed", "host_memory", "oom_prefill", "nccl_failure"])
def test_causes_that_may_be_gone_are_tried_again(rule: str) -> None:
    assert is_worth_a_restart(replace(CRASH, failure=Failure(rule)))


@pytest.mark.parametrize(
    "rule", ["context_too_long", "oom_load", "start_overdue", "port_taken", "gpu_lost", "kv_too_small"]
)
def test_causes_that_a_person_has_to_remove_are_not(rule: str) -> None:
    assert not is_worth_a_restart(replace(CRASH, failure=Failure(rule)))
    assert after_end(CARED, replace(CRASH, failure=Failure(rule)), now=0.0, policy=POLICY).gave_up is GaveUp.USELESS


def test_an_unknown_cause_is_tried_again_only_when_the_engine_had_served() -> None:
    assert is_worth_a_restart(replace(CRASH, failure=Failure("unknown"), was_ready=True))
    assert not is_worth_a_restart(replace(CRASH, failure=Failure("unknown"), was_ready=False))
    assert not is_worth_a_restart(replace(CRASH, failure=None, was_ready=False))


def test_a_command_that_argparse_refused_is_never_tried_again() -> None:
    assert not is_worth_a_restart(replace(CRASH, returncode=2))


def test_a_person_resets_everything_but_the_wish() -> None:
    busy = replace(CARED, judged_run=4, crashes=(1.0,), restarts=3, restart_at=9.0, gave_up=GaveUp.LIMIT)
    assert busy.touched() == replace(CARED, judged_run=4)
