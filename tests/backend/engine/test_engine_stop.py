"""Stopping an engine at any moment: it ends in time and nothing of it stays behind."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from backend.engine.engine import Engine
from backend.engine.shared_memory import list_shared
from backend.engine.status import EngineState
from backend.errors import LaunchError
from tests.fakes.engine_runs import (
    OTHER_ID,
    STOPPED,
    process_of,
    started,
)
from tests.fakes.fake_specs import DEADLINE_S, ENGINE_ID, QUICK, ROUNDS, eventually, fake_spec, living, mapped

pytestmark = pytest.mark.faults
every_round = pytest.mark.parametrize("round_number", ROUNDS)


@every_round
async def test_a_ready_engine_is_asked_and_goes_with_its_workers(
    engine: Engine, free_port: Callable[[], int], round_number: int
) -> None:
    await started(engine, fake_spec(free_port(), "--workers", "3"))
    assert len(living(ENGINE_ID)) == 4
    await engine.stop()
    assert living(ENGINE_ID) == set()
    assert (engine.status.state, engine.status.returncode, engine.status.reason) == (EngineState.STOPPED, 0, "")
    assert "INFO: Shutting down" in engine.log.last_lines(5)


@every_round
async def test_a_deaf_engine_is_killed_after_the_grace(
    engine: Engine, free_port: Callable[[], int], round_number: int
) -> None:
    await started(engine, fake_spec(free_port(), "--ignore-sigterm", "--workers", "3"))
    begun = time.monotonic()
    await engine.stop(grace_s=0.5)
    took_s = time.monotonic() - begun
    assert living(ENGINE_ID) == set()
    assert (engine.status.state, engine.status.returncode) == (EngineState.STOPPED, -9)
    assert 0.5 <= took_s < 10


@every_round
async def test_a_starting_engine_is_killed_at_once_since_sigterm_would_be_lost(
    engine: Engine, free_port: Callable[[], int], round_number: int
) -> None:
    await engine.start(fake_spec(free_port(), "--slow-start", "60", "--workers", "3"))
    await eventually(lambda: len(living(ENGINE_ID)) == 4, what="the workers")
    begun = time.monotonic()
    await engine.stop(grace_s=30)
    assert time.monotonic() - begun < 10
    assert living(ENGINE_ID) == set()
    assert engine.status.state is EngineState.STOPPED


@every_round
async def test_a_stop_during_the_spawn_itself_leaves_nothing(
    engine: Engine, free_port: Callable[[], int], round_number: int
) -> None:
    starting = asyncio.create_task(engine.start(fake_spec(free_port(), "--workers", "2")))
    for _ in range(round_number):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0)
    await engine.stop()
    await starting
    assert engine.status.state is EngineState.STOPPED
    assert living(ENGINE_ID) == set()


async def test_two_stops_are_one(engine: Engine, free_port: Callable[[], int]) -> None:
    await started(engine, fake_spec(free_port(), "--ignore-sigterm"))
    begun = time.monotonic()
    await asyncio.gather(engine.stop(grace_s=0.5), engine.stop(grace_s=30), engine.stop(grace_s=30))
    assert time.monotonic() - begun < 10
    assert [run.outcome for run in engine.runs] == [EngineState.STOPPED]


async def test_a_second_stop_may_shorten_the_grace(engine: Engine, free_port: Callable[[], int]) -> None:
    await started(engine, fake_spec(free_port(), "--ignore-sigterm"))
    patient = asyncio.create_task(engine.stop(grace_s=60))
    await engine.wait_until({EngineState.STOPPING}, timeout_s=5)
    await engine.stop(grace_s=0.0)
    await patient
    assert engine.status.state is EngineState.STOPPED


async def test_a_start_while_stopping_is_refused_and_works_afterwards(
    engine: Engine, free_port: Callable[[], int]
) -> None:
    spec = fake_spec(free_port(), "--ignore-sigterm")
    await started(engine, spec)
    stopping = asyncio.create_task(engine.stop(grace_s=0.5))
    await engine.wait_until({EngineState.STOPPING}, timeout_s=5)
    with pytest.raises(LaunchError, match="stopping"):
        await engine.start(spec)
    await stopping
    assert (await started(engine, spec)).run == 2


async def test_a_cancelled_caller_does_not_cancel_the_stop(engine: Engine, free_port: Callable[[], int]) -> None:
    await started(engine, fake_spec(free_port(), "--ignore-sigterm"))
    caller = asyncio.create_task(engine.stop(grace_s=0.3))
    await engine.wait_until({EngineState.STOPPING}, timeout_s=5)
    caller.cancel()
    await engine.wait_until(STOPPED, timeout_s=DEADLINE_S)
    assert living(ENGINE_ID) == set()


async def test_members_that_outlive_sigkill_are_named_and_the_engine_is_failed(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:
    # no process here survives SIGKILL, so none is waited for: those seen at the last look count as stuck
    impatient = replace(QUICK, kill_deadline_s=-1.0)
    engine = Engine(OTHER_ID, tmp_path / OTHER_ID, timing=impatient)
    await started(engine, fake_spec(free_port()))
    leader = process_of(engine, tmp_path).leader.pid
    await engine.stop(grace_s=0.0)
    assert engine.status.state is EngineState.FAILED
    assert f"cannot be ended (pid {leader})" in engine.status.reason
    assert "driver" in engine.status.hint
    await eventually(lambda: living(OTHER_ID) == set(), what="they die after all")


async def test_a_stop_of_what_does_not_run_does_nothing(engine: Engine) -> None:
    await engine.stop()
    assert engine.status.state is EngineState.STOPPED


@every_round
async def test_shared_memory_is_swept_but_never_another_engines(
    engine: Engine,
    tmp_path: Path,
    free_port: Callable[[], int],
    round_number: int,
) -> None:
    other = Engine(OTHER_ID, tmp_path / "other", timing=QUICK)
    await asyncio.gather(
        started(engine, fake_spec(free_port(), "--shm", "--workers", "2")),
        started(other, fake_spec(free_port(), "--shm", "--workers", "2")),
    )
    held = await mapped(OTHER_ID, 3)
    await engine.stop(grace_s=0.0)
    present = {shared.name for shared in list_shared()}
    assert held <= present, "the other engine still has its memory"
    await other.stop(grace_s=0.0)
    assert not held & {shared.name for shared in list_shared()}
