"""Starting an engine: stages, log, learned times, and what is refused."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from backend.engine.engine import Engine
from backend.engine.status import EngineState, Stage
from backend.errors import LaunchError
from backend.failure.failure import Fix, FixKind
from backend.launch.plan import LaunchSpec
from tests.fakes.engine_runs import (
    FAILED,
    OTHER_ID,
    READY,
    SETTLED,
    started,
)
from tests.fakes.fake_specs import DEADLINE_S, ENGINE_ID, QUICK, ROUNDS, eventually, fake_spec

pytestmark = pytest.mark.faults
every_round = pytest.mark.parametrize("round_number", ROUNDS)


async def test_an_engine_that_never_ran_is_stopped(engine: Engine) -> None:
    await engine.adopt()
    assert engine.status.state is EngineState.STOPPED
    assert engine.spec is None
    assert engine.runs == ()
    assert engine.log.since(0).lines == ()


async def test_a_start_returns_at_once_and_becomes_ready_through_its_stages(
    engine: Engine, free_port: Callable[[], int]
) -> None:
    spec = fake_spec(free_port(), "--slow-start", "2")
    stages: list[Stage] = []
    begun = time.monotonic()
    await engine.start(spec)
    assert time.monotonic() - begun < 2.0
    assert engine.status.state is EngineState.STARTING
    while engine.status.state is EngineState.STARTING:
        assert engine.status.progress is not None
        if engine.status.progress.stage not in stages:
            stages.append(engine.status.progress.stage)
        await asyncio.sleep(0.005)
    assert stages == [Stage.SPAWN, Stage.IMPORTS, Stage.WEIGHTS, Stage.KV_CACHE, Stage.WARM_UP]
    status = engine.status
    assert (status.state, status.run, status.adopted) == (EngineState.READY, 1, False)
    assert status.started_at is not None and status.ready_at is not None
    assert 1.5 < status.ready_at - status.started_at < DEADLINE_S
    assert engine.spec == spec


async def test_the_log_is_followed_without_our_own_health_questions(
    engine: Engine, free_port: Callable[[], int]
) -> None:
    await started(engine, fake_spec(free_port()))
    await eventually(lambda: any("startup complete" in line for line in engine.log.last_lines(99)), what="last line")
    lines = engine.log.last_lines(99)
    assert lines[0].endswith("non-default args: {'model': 'fake-model'}")
    assert sum("checkpoint shards" in line for line in lines) == 1, "progress replaces its line"


async def test_the_expected_time_is_learned_from_runs(engine: Engine, free_port: Callable[[], int]) -> None:
    spec = replace(fake_spec(free_port()), expected_ready_s=33.0)
    await engine.start(spec)
    assert engine.status.expected_ready_s == 33.0
    await engine.wait_until(READY, timeout_s=DEADLINE_S)
    await engine.stop()
    await engine.start(spec)
    learned = engine.runs[0].ready_s
    assert learned is not None and engine.status.expected_ready_s == learned
    assert 0.05 < learned < DEADLINE_S


async def test_changes_are_told(tmp_path: Path, free_port: Callable[[], int]) -> None:
    told: list[EngineState] = []
    engine = Engine("told", tmp_path / "told", timing=QUICK, on_change=lambda engine: told.append(engine.status.state))
    await started(engine, fake_spec(free_port()))
    await engine.stop()
    assert [state for index, state in enumerate(told) if state not in told[:index]] == [
        EngineState.STARTING,
        EngineState.READY,
        EngineState.STOPPING,
        EngineState.STOPPED,
    ]


async def test_the_record_holds_secrets_and_is_for_its_owner_only(
    engine: Engine, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    await engine.start(replace(fake_spec(free_port()), env={"API_KEY": "s3cret"}))
    for path in (tmp_path / ENGINE_ID).rglob("*"):
        if path.is_file() and b"s3cret" in path.read_bytes():
            assert path.stat().st_mode & 0o777 == 0o600, path


async def test_a_program_that_is_missing_is_refused_and_changes_nothing(engine: Engine) -> None:
    with pytest.raises(LaunchError, match="/no/such/python"):
        await engine.start(LaunchSpec(title="Lost", preset="lost", argv=("/no/such/python",)))
    assert engine.status.state is EngineState.STOPPED
    assert engine.spec is None


async def test_a_program_the_kernel_refuses_is_failed_with_the_kernels_words(engine: Engine, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF but not really")
    broken.chmod(0o700)
    await engine.start(LaunchSpec(title="Broken", preset="broken", argv=(str(broken),)))
    status = await engine.wait_until(FAILED, timeout_s=DEADLINE_S)
    assert "Exec format error" in status.reason


async def test_a_second_start_is_refused_while_the_first_is_on_its_way_or_up(
    engine: Engine, free_port: Callable[[], int]
) -> None:
    spec = fake_spec(free_port())
    first = asyncio.create_task(engine.start(spec))
    await asyncio.sleep(0)
    with pytest.raises(LaunchError, match="starting"):
        await engine.start(spec)
    await first
    await engine.wait_until(READY, timeout_s=DEADLINE_S)
    with pytest.raises(LaunchError, match="ready"):
        await engine.start(spec)
    assert [run.number for run in engine.runs] == [1]


async def test_a_cancelled_caller_does_not_cancel_the_start(engine: Engine, free_port: Callable[[], int]) -> None:
    caller = asyncio.create_task(engine.start(fake_spec(free_port())))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait({caller})
    assert caller.cancelled()
    await engine.wait_until(READY, timeout_s=DEADLINE_S)


async def test_another_server_on_the_port_is_not_taken_for_the_engine(
    engine: Engine, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    port = free_port()
    stranger = Engine(OTHER_ID, tmp_path / "stranger", timing=QUICK)
    await engine.start(fake_spec(port, "--slow-start", "3"))
    await started(stranger, replace(fake_spec(port), preset="stranger"))  # it took the port first
    assert engine.status.state is EngineState.STARTING
    status = await engine.wait_until(SETTLED, timeout_s=DEADLINE_S)
    await stranger.stop(grace_s=0.0)
    assert status.state is EngineState.FAILED
    assert status.failure is not None and status.failure.rule == "port_taken"
    assert Fix(FixKind.PORT) in status.failure.fixes
    assert str(port) in status.reason
