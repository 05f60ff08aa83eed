"""What a later panel makes of engines that live, died or left a broken record."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from backend.engine.engine import Engine
from backend.engine.process import is_alive
from backend.engine.run_folder import RunFolder
from backend.engine.shared_memory import list_shared
from backend.engine.status import EngineState, Stage
from tests.fakes.engine_runs import (
    FAILED,
    READY,
    STOPPED,
    eventually_healthy,
    pretend_running,
    process_of,
    started,
)
from tests.fakes.fake_specs import DEADLINE_S, ENGINE_ID, ROUNDS, eventually, fake_spec, living, mapped

pytestmark = pytest.mark.faults
every_round = pytest.mark.parametrize("round_number", ROUNDS)


@every_round
async def test_a_ready_engine_is_adopted_with_its_times_and_log(
    engine: Engine, next_panel: Engine, free_port: Callable[[], int], round_number: int
) -> None:
    before = await started(engine, fake_spec(free_port(), "--workers", "2"))
    await engine.close()
    await next_panel.adopt()
    adopted = replace(next_panel.status, memory_bytes=before.memory_bytes)  # read in the background
    assert adopted == replace(before, adopted=True, expected_ready_s=engine.runs[-1].ready_s)
    assert next_panel.spec == engine.spec
    assert any("startup complete" in line for line in next_panel.log.last_lines(99))
    await next_panel.stop()
    assert (next_panel.status.state, living(ENGINE_ID)) == (EngineState.STOPPED, set())


@every_round
async def test_a_starting_engine_is_adopted_at_its_stage_and_becomes_ready(
    engine: Engine, next_panel: Engine, free_port: Callable[[], int], round_number: int
) -> None:
    await engine.start(fake_spec(free_port(), "--slow-start", "3"))
    await eventually(lambda: any("Starting to load" in line for line in engine.log.last_lines(9)), what="weights")
    await engine.close()
    await next_panel.adopt()
    status = next_panel.status
    assert (status.state, status.adopted, status.started_at) == ("starting", True, engine.status.started_at)
    assert status.progress is not None and status.progress.stage is Stage.WEIGHTS
    await next_panel.wait_until(READY, timeout_s=DEADLINE_S)
    ready_s = next_panel.runs[-1].ready_s
    assert ready_s is not None and ready_s > 2.5, "measured from the start, not from the adoption"


async def test_an_engine_that_became_ready_while_no_panel_looked_does_not_teach_a_wrong_time(
    engine: Engine, next_panel: Engine, free_port: Callable[[], int]
) -> None:
    spec = fake_spec(free_port(), "--slow-start", "1")
    await engine.start(spec)
    await engine.close()
    async with httpx.AsyncClient(trust_env=False) as client:
        await eventually_healthy(client, spec)
    await next_panel.adopt()
    await next_panel.wait_until(READY, timeout_s=DEADLINE_S)
    assert next_panel.runs[-1].ready_s is None
    assert next_panel.status.ready_at is not None


async def test_the_ready_timeout_counts_from_the_start_across_panels(
    engine: Engine, next_panel: Engine, free_port: Callable[[], int]
) -> None:
    await engine.start(fake_spec(free_port(), "--never-ready", ready_timeout_s=2.0))
    await engine.close()
    await eventually(lambda: time.time() - (engine.status.started_at or 0) > 2.1, what="the ready timeout")
    await next_panel.adopt()
    begun = time.monotonic()
    await next_panel.wait_until(FAILED, timeout_s=DEADLINE_S)
    assert time.monotonic() - begun < 2.0
    assert living(ENGINE_ID) == set()


@every_round
async def test_an_engine_that_died_meanwhile_is_failed_with_its_code(
    engine: Engine, next_panel: Engine, tmp_path: Path, free_port: Callable[[], int], round_number: int
) -> None:
    await started(engine, fake_spec(free_port(), "--workers", "2", "--shm"))
    process = process_of(engine, tmp_path)
    await engine.close()
    os.kill(process.leader.pid, signal.SIGSEGV)
    await eventually(lambda: not is_alive(process.keeper), what="the keeper is done")
    assert living(ENGINE_ID) == set(), "nothing waits for the next panel"
    await next_panel.adopt()
    status = next_panel.status
    assert (status.state, status.returncode, "SIGSEGV" in status.reason) == (EngineState.FAILED, -11, True)
    assert status.since < time.time()


@every_round
async def test_leftovers_of_a_killed_keeper_are_ended_by_the_next_panel(
    engine: Engine, next_panel: Engine, tmp_path: Path, free_port: Callable[[], int], round_number: int
) -> None:
    await started(engine, fake_spec(free_port(), "--workers", "3", "--ignore-sigterm", "--shm"))
    made = await mapped(ENGINE_ID, 4)
    process = process_of(engine, tmp_path)
    await engine.close()
    os.kill(process.keeper.pid, signal.SIGKILL)
    await eventually(lambda: not is_alive(process.leader), what="the leader dies with its keeper")
    assert len(living(ENGINE_ID)) == 3
    await next_panel.adopt()
    assert (next_panel.status.state, living(ENGINE_ID)) == (EngineState.FAILED, set())
    assert not made & {shared.name for shared in list_shared()}


async def test_a_stop_that_a_panel_did_not_live_to_finish_is_finished(
    engine: Engine, next_panel: Engine, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    await started(engine, fake_spec(free_port()))
    await engine.close()
    pretend_running(tmp_path / ENGINE_ID / "record.json", stopping=True)
    await next_panel.adopt()
    assert next_panel.status.state is EngineState.STOPPING
    await next_panel.wait_until(STOPPED, timeout_s=DEADLINE_S)
    assert living(ENGINE_ID) == set()


async def test_an_engine_that_ended_during_an_unfinished_stop_is_stopped_not_failed(
    engine: Engine, next_panel: Engine, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    await started(engine, fake_spec(free_port()))
    process = process_of(engine, tmp_path)
    await engine.close()
    pretend_running(tmp_path / ENGINE_ID / "record.json", stopping=True)
    os.kill(process.leader.pid, signal.SIGTERM)
    await eventually(lambda: not is_alive(process.keeper), what="the keeper is done")
    await next_panel.adopt()
    assert next_panel.status.state is EngineState.STOPPED


@pytest.mark.parametrize("field", ["start_ticks", "boot_id"])
async def test_a_record_whose_pid_was_reused_is_dead_and_its_new_owner_is_left_alone(
    engine: Engine, next_panel: Engine, tmp_path: Path, free_port: Callable[[], int], field: str
) -> None:
    await started(engine, fake_spec(free_port()))
    await engine.stop()
    folder = RunFolder(tmp_path / ENGINE_ID / "runs" / "1")
    (folder.path / "exit.json").unlink()
    bystander = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    process = process_of(engine, tmp_path)
    reused = replace(process.leader, pid=bystander.pid)
    folder.write_process(replace(process, leader=replace(reused, boot_id="x") if field == "boot_id" else reused))
    pretend_running(tmp_path / ENGINE_ID / "record.json", stopping=False)
    await next_panel.adopt()
    ended = EngineState.STOPPED if field == "boot_id" else EngineState.FAILED  # with the machine, or by itself
    assert next_panel.status.state is ended
    assert bystander.returncode is None
    os.kill(bystander.pid, 0)
    bystander.kill()
    await bystander.wait()


async def test_a_finished_run_is_restored_with_its_log(
    engine: Engine, next_panel: Engine, free_port: Callable[[], int]
) -> None:
    await engine.start(fake_spec(free_port(), "--exit-early", "3"))
    failed = await engine.wait_until(FAILED, timeout_s=DEADLINE_S)
    await engine.close()
    await next_panel.adopt()
    assert next_panel.status == failed
    assert any("the fake weights are broken" in line for line in next_panel.log.last_lines(99))


@pytest.mark.parametrize("content", ["", "{", '{"spec": 1}', "\x00\x00\x00"])
async def test_a_corrupt_record_is_reported_and_what_lives_of_it_is_ended(
    engine: Engine, next_panel: Engine, tmp_path: Path, free_port: Callable[[], int], content: str
) -> None:
    await started(engine, fake_spec(free_port(), "--workers", "2"))
    await engine.close()
    (tmp_path / ENGINE_ID / "record.json").write_text(content)
    await next_panel.adopt()
    status = next_panel.status
    assert status.state is EngineState.FAILED
    assert "record.json" in status.reason and "3 of its processes were still alive" in status.reason
    assert (tmp_path / ENGINE_ID / "record.unreadable").read_text() == content
    assert living(ENGINE_ID) == set()
    spec = fake_spec(free_port())
    assert (await started(next_panel, spec)).run == 2, "it can be used again"


async def test_a_corrupt_process_file_is_not_fatal(
    engine: Engine, next_panel: Engine, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    await started(engine, fake_spec(free_port(), "--workers", "2"))
    await engine.close()
    (tmp_path / ENGINE_ID / "runs" / "1" / "process.json").write_text("{")
    await next_panel.adopt()
    assert next_panel.status.state is EngineState.FAILED
    assert living(ENGINE_ID) == set()


async def test_a_panel_that_died_between_record_and_spawn_leaves_a_failed_engine(
    engine: Engine, next_panel: Engine, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    await started(engine, fake_spec(free_port()))
    await engine.stop()
    pretend_running(tmp_path / ENGINE_ID / "record.json", stopping=False)
    for path in (tmp_path / ENGINE_ID / "runs" / "1").glob("*.json"):
        path.unlink()
    await next_panel.adopt()
    assert next_panel.status.state is EngineState.FAILED
    assert "did not come to life" in next_panel.status.reason
