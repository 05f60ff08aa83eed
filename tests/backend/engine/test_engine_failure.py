"""Every way an engine can go wrong, with real processes: the state is right and nothing stays behind."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from backend.engine.engine import Engine
from backend.engine.process import find_marked
from backend.engine.shared_memory import list_shared
from backend.engine.status import RUNNING_STATES, EngineState, Stage, StageProgress
from tests.fakes.engine_runs import (
    FAILED,
    READY,
    pids_but_leader,
    process_of,
    started,
)
from tests.fakes.fake_specs import DEADLINE_S, ENGINE_ID, ROUNDS, eventually, fake_spec, living, mapped

pytestmark = pytest.mark.faults
every_round = pytest.mark.parametrize("round_number", ROUNDS)


@every_round
async def test_exit_before_ready_is_failed_with_its_code_and_the_logs_own_words(
    engine: Engine, free_port: Callable[[], int], round_number: int
) -> None:
    await engine.start(fake_spec(free_port(), "--exit-early", "3", "--workers", "2"))
    status = await engine.wait_until(FAILED, timeout_s=DEADLINE_S)
    assert status.returncode == 3
    assert status.reason == (
        "The engine exited with code 3 before it was ready: RuntimeError: the fake weights are broken"
    )
    assert living(ENGINE_ID) == set()


@every_round
async def test_an_engine_that_is_never_ready_is_ended_and_failed(
    engine: Engine, free_port: Callable[[], int], round_number: int
) -> None:
    await engine.start(fake_spec(free_port(), "--never-ready", "--workers", "2", ready_timeout_s=1.5))
    status = await engine.wait_until(FAILED, timeout_s=DEADLINE_S)
    assert status.failure is not None and status.failure.rule == "start_overdue"
    assert status.failure.values["kind"] == "timeout"
    assert status.progress == StageProgress(Stage.WEIGHTS, 100)
    assert status.hint
    assert living(ENGINE_ID) == set()


@every_round
async def test_a_killed_leader_is_failed_and_its_workers_end(
    engine: Engine, tmp_path: Path, free_port: Callable[[], int], round_number: int
) -> None:
    await started(engine, fake_spec(free_port(), "--workers", "3", "--ignore-sigterm"))
    os.kill(process_of(engine, tmp_path).leader.pid, signal.SIGKILL)
    status = await engine.wait_until(FAILED, timeout_s=DEADLINE_S)
    assert status.returncode == -9
    assert status.failure is not None and status.failure.rule == "killed"
    assert "SIGKILL" in status.reason and "memory" in status.hint
    assert living(ENGINE_ID) == set()


@every_round
async def test_a_killed_worker_fails_the_engine_and_all_of_it_ends(
    engine: Engine, tmp_path: Path, free_port: Callable[[], int], round_number: int
) -> None:
    await started(engine, fake_spec(free_port(), "--workers", "3"))
    os.kill(pids_but_leader(engine, tmp_path)[0], signal.SIGKILL)
    status = await engine.wait_until(FAILED, timeout_s=DEADLINE_S)
    assert status.returncode == 1
    assert "died unexpectedly" in status.reason
    assert living(ENGINE_ID) == set()


@every_round
async def test_a_killed_keeper_fails_the_engine_and_all_of_it_ends(
    engine: Engine,
    tmp_path: Path,
    free_port: Callable[[], int],
    round_number: int,
) -> None:
    await started(engine, fake_spec(free_port(), "--workers", "3", "--ignore-sigterm", "--shm"))
    made = await mapped(ENGINE_ID, 4)
    process = process_of(engine, tmp_path)
    os.kill(process.keeper.pid, signal.SIGKILL)
    status = await engine.wait_until(FAILED, timeout_s=DEADLINE_S)
    assert status.returncode is None
    assert status.failure is not None and status.failure.rule == "killed"
    assert living(ENGINE_ID) == set()
    assert not made & {shared.name for shared in list_shared()}
    assert not Path(process.temporary).exists()


@every_round
async def test_death_in_the_middle_of_an_answer_is_failed(
    engine: Engine, free_port: Callable[[], int], round_number: int
) -> None:
    spec = fake_spec(free_port(), "--die-after-tokens", "5", "--workers", "2")
    await started(engine, spec)
    order = {"messages": [{"role": "user", "content": "hi"}], "stream": True, "max_tokens": 50}
    received = ""
    async with httpx.AsyncClient(trust_env=False, timeout=DEADLINE_S) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            async with client.stream("POST", f"{spec.base_url}/v1/chat/completions", json=order) as response:
                async for piece in response.aiter_text():
                    received += piece
    assert received.count('"content"') == 6, "the role's empty content and five tokens"
    status = await engine.wait_until(FAILED, timeout_s=DEADLINE_S)
    assert status.returncode == -9
    assert living(ENGINE_ID) == set()


@every_round
async def test_a_flooding_engine_starts_serves_and_stops_and_the_panel_stays_quick(
    engine: Engine, free_port: Callable[[], int], round_number: int
) -> None:
    spec = fake_spec(free_port(), "--flood-mb-per-s", "50")
    await started(engine, spec)
    await eventually(lambda: engine.log.skipped_bytes > 20e6, what="a flood")
    assert len(engine.log.since(0).lines) <= 2000
    await engine.stop()
    assert (engine.status.state, living(ENGINE_ID)) == (EngineState.STOPPED, set())


@every_round
async def test_a_living_engine_without_answers_is_unreachable_and_can_be_stopped(
    engine: Engine, free_port: Callable[[], int], round_number: int
) -> None:
    await started(engine, fake_spec(free_port(), "--hang-health", "--workers", "2"))
    status = await engine.wait_until({EngineState.UNREACHABLE}, timeout_s=DEADLINE_S)
    assert "/health" in status.reason
    await engine.stop()
    assert (engine.status.state, living(ENGINE_ID)) == (EngineState.STOPPED, set())


async def test_a_paused_engine_is_unreachable_and_ready_again_by_itself(
    engine: Engine, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    before = await started(engine, fake_spec(free_port()))
    leader = process_of(engine, tmp_path).leader.pid
    os.kill(leader, signal.SIGSTOP)
    await engine.wait_until({EngineState.UNREACHABLE}, timeout_s=DEADLINE_S)
    os.kill(leader, signal.SIGCONT)
    after = await engine.wait_until(READY, timeout_s=DEADLINE_S)
    assert after.ready_at == before.ready_at and after.since > before.since and after.reason == ""


async def test_a_failed_engine_can_be_started_again_and_earlier_runs_are_kept(
    engine: Engine, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    await engine.start(fake_spec(free_port(), "--exit-early", "3"))
    await engine.wait_until(FAILED, timeout_s=DEADLINE_S)
    await started(engine, fake_spec(free_port()))
    assert [(run.number, run.outcome, run.returncode) for run in engine.runs] == [
        (1, EngineState.FAILED, 3),
        (2, None, None),
    ]
    assert "broken" in (tmp_path / f"{ENGINE_ID}/runs/1/log/000000000000000.log").read_text()


async def test_watching_a_ready_engine_costs_next_to_nothing(engine: Engine, free_port: Callable[[], int]) -> None:
    # at the quick test timing, ten looks and ten questions a second, many times the real rate
    await started(engine, fake_spec(free_port()))
    before, begun = time.process_time(), time.monotonic()
    await asyncio.sleep(2.0)
    share = (time.process_time() - before) / (time.monotonic() - begun)
    assert share < 0.10
    assert engine.status.state in RUNNING_STATES
    assert find_marked(f"{ENGINE_ID}/")
