"""An engine and every way it can go wrong, with real processes: the state is right and nothing stays behind."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from backend.engine.engine import Engine
from backend.engine.process import find_marked, is_alive
from backend.engine.run_folder import RunFolder, RunProcess
from backend.engine.shared_memory import list_shared
from backend.engine.status import RUNNING_STATES, EngineState, EngineStatus, Stage
from backend.errors import LaunchError
from backend.launch.plan import LaunchSpec
from tests.fakes.fake_specs import DEADLINE_S, ENGINE_ID, QUICK, ROUNDS, eventually, fake_spec, living, mapped

pytestmark = pytest.mark.faults
every_round = pytest.mark.parametrize("round_number", ROUNDS)

OTHER_ID = f"{ENGINE_ID}-other"
READY, FAILED, STOPPED = {EngineState.READY}, {EngineState.FAILED}, {EngineState.STOPPED}
SETTLED = {EngineState.READY, EngineState.FAILED, EngineState.STOPPED}


def process_of(engine: Engine, folder: Path) -> RunProcess:
    """The processes of the engine's current run."""
    process = RunFolder(folder / engine.engine_id / "runs" / str(engine.status.run)).read_process()
    assert process is not None
    return process


def pids_but_leader(engine: Engine, folder: Path) -> list[int]:
    return sorted(living(engine.engine_id) - {process_of(engine, folder).leader.pid})


async def started(engine: Engine, spec: LaunchSpec) -> EngineStatus:
    """Start and wait until it is ready."""
    await engine.start(spec)
    status = await engine.wait_until(SETTLED, timeout_s=DEADLINE_S)
    assert status.state is EngineState.READY, status
    return status


def pretend_running(record: Path, *, stopping: bool) -> None:
    """Take back the end of the last run, as if the panel had died before it could write it."""
    data = json.loads(record.read_text())
    data["stopping"] = stopping
    data["runs"][-1] |= {"outcome": None, "ended_at": None}
    record.write_text(json.dumps(data))


@pytest.fixture
async def next_panel(tmp_path: Path) -> AsyncIterator[Engine]:
    """The same engine as a later panel sees it; it must not be looked after by an earlier one any more."""
    engine = Engine(ENGINE_ID, tmp_path / ENGINE_ID, timing=QUICK)
    yield engine
    await engine.stop(grace_s=0.0)
    await engine.close()


class TestStart:
    async def test_an_engine_that_never_ran_is_stopped(self, engine: Engine) -> None:
        await engine.adopt()
        assert engine.status.state is EngineState.STOPPED
        assert engine.spec is None
        assert engine.runs == ()
        assert engine.log.since(0).lines == ()

    async def test_a_start_returns_at_once_and_becomes_ready_through_its_stages(
        self, engine: Engine, free_port: Callable[[], int]
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
        self, engine: Engine, free_port: Callable[[], int]
    ) -> None:
        await started(engine, fake_spec(free_port()))
        await eventually(
            lambda: any("startup complete" in line for line in engine.log.last_lines(99)), what="last line"
        )
        lines = engine.log.last_lines(99)
        assert lines[0].endswith("non-default args: {'model': 'fake-model'}")
        assert sum("checkpoint shards" in line for line in lines) == 1, "progress replaces its line"

    async def test_the_expected_time_is_learned_from_runs(self, engine: Engine, free_port: Callable[[], int]) -> None:
        spec = replace(fake_spec(free_port()), expected_ready_s=33.0)
        await engine.start(spec)
        assert engine.status.expected_ready_s == 33.0
        await engine.wait_until(READY, timeout_s=DEADLINE_S)
        await engine.stop()
        await engine.start(spec)
        learned = engine.runs[0].ready_s
        assert learned is not None and engine.status.expected_ready_s == learned
        assert 0.05 < learned < DEADLINE_S

    async def test_changes_are_told(self, tmp_path: Path, free_port: Callable[[], int]) -> None:
        told: list[EngineState] = []
        engine = Engine(
            "told", tmp_path / "told", timing=QUICK, on_change=lambda engine: told.append(engine.status.state)
        )
        await started(engine, fake_spec(free_port()))
        await engine.stop()
        assert [state for index, state in enumerate(told) if state not in told[:index]] == [
            EngineState.STARTING,
            EngineState.READY,
            EngineState.STOPPING,
            EngineState.STOPPED,
        ]

    async def test_the_record_holds_secrets_and_is_for_its_owner_only(
        self, engine: Engine, tmp_path: Path, free_port: Callable[[], int]
    ) -> None:
        await engine.start(replace(fake_spec(free_port()), env={"API_KEY": "s3cret"}))
        for path in (tmp_path / ENGINE_ID).rglob("*"):
            if path.is_file() and b"s3cret" in path.read_bytes():
                assert path.stat().st_mode & 0o777 == 0o600, path

    async def test_a_program_that_is_missing_is_refused_and_changes_nothing(self, engine: Engine) -> None:
        with pytest.raises(LaunchError, match="/no/such/python"):
            await engine.start(LaunchSpec(title="Lost", preset="lost", argv=("/no/such/python",)))
        assert engine.status.state is EngineState.STOPPED
        assert engine.spec is None

    async def test_a_program_the_kernel_refuses_is_failed_with_the_kernels_words(
        self, engine: Engine, tmp_path: Path
    ) -> None:
        broken = tmp_path / "broken"
        broken.write_bytes(b"\x7fELF but not really")
        broken.chmod(0o700)
        await engine.start(LaunchSpec(title="Broken", preset="broken", argv=(str(broken),)))
        status = await engine.wait_until(FAILED, timeout_s=DEADLINE_S)
        assert "Exec format error" in status.reason

    async def test_a_second_start_is_refused_while_the_first_is_on_its_way_or_up(
        self, engine: Engine, free_port: Callable[[], int]
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

    async def test_a_cancelled_caller_does_not_cancel_the_start(
        self, engine: Engine, free_port: Callable[[], int]
    ) -> None:
        caller = asyncio.create_task(engine.start(fake_spec(free_port())))
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.wait({caller})
        assert caller.cancelled()
        await engine.wait_until(READY, timeout_s=DEADLINE_S)

    async def test_another_server_on_the_port_is_not_taken_for_the_engine(
        self, engine: Engine, tmp_path: Path, free_port: Callable[[], int]
    ) -> None:
        port = free_port()
        stranger = Engine(OTHER_ID, tmp_path / "stranger", timing=QUICK)
        await engine.start(fake_spec(port, "--slow-start", "3"))
        await started(stranger, replace(fake_spec(port), preset="stranger"))  # it took the port first
        assert engine.status.state is EngineState.STARTING
        status = await engine.wait_until(SETTLED, timeout_s=DEADLINE_S)
        await stranger.stop(grace_s=0.0)
        assert status.state is EngineState.FAILED
        assert "ddress already in use" in status.reason


class TestStop:
    @every_round
    async def test_a_ready_engine_is_asked_and_goes_with_its_workers(
        self, engine: Engine, free_port: Callable[[], int], round_number: int
    ) -> None:
        await started(engine, fake_spec(free_port(), "--workers", "3"))
        assert len(living(ENGINE_ID)) == 4
        await engine.stop()
        assert living(ENGINE_ID) == set()
        assert (engine.status.state, engine.status.returncode, engine.status.reason) == (EngineState.STOPPED, 0, "")
        assert "INFO: Shutting down" in engine.log.last_lines(5)

    @every_round
    async def test_a_deaf_engine_is_killed_after_the_grace(
        self, engine: Engine, free_port: Callable[[], int], round_number: int
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
        self, engine: Engine, free_port: Callable[[], int], round_number: int
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
        self, engine: Engine, free_port: Callable[[], int], round_number: int
    ) -> None:
        starting = asyncio.create_task(engine.start(fake_spec(free_port(), "--workers", "2")))
        for _ in range(round_number):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0)
        await engine.stop()
        await starting
        assert engine.status.state is EngineState.STOPPED
        assert living(ENGINE_ID) == set()

    async def test_two_stops_are_one(self, engine: Engine, free_port: Callable[[], int]) -> None:
        await started(engine, fake_spec(free_port(), "--ignore-sigterm"))
        begun = time.monotonic()
        await asyncio.gather(engine.stop(grace_s=0.5), engine.stop(grace_s=30), engine.stop(grace_s=30))
        assert time.monotonic() - begun < 10
        assert [run.outcome for run in engine.runs] == [EngineState.STOPPED]

    async def test_a_second_stop_may_shorten_the_grace(self, engine: Engine, free_port: Callable[[], int]) -> None:
        await started(engine, fake_spec(free_port(), "--ignore-sigterm"))
        patient = asyncio.create_task(engine.stop(grace_s=60))
        await engine.wait_until({EngineState.STOPPING}, timeout_s=5)
        await engine.stop(grace_s=0.0)
        await patient
        assert engine.status.state is EngineState.STOPPED

    async def test_a_start_while_stopping_is_refused_and_works_afterwards(
        self, engine: Engine, free_port: Callable[[], int]
    ) -> None:
        spec = fake_spec(free_port(), "--ignore-sigterm")
        await started(engine, spec)
        stopping = asyncio.create_task(engine.stop(grace_s=0.5))
        await engine.wait_until({EngineState.STOPPING}, timeout_s=5)
        with pytest.raises(LaunchError, match="stopping"):
            await engine.start(spec)
        await stopping
        assert (await started(engine, spec)).run == 2

    async def test_a_cancelled_caller_does_not_cancel_the_stop(
        self, engine: Engine, free_port: Callable[[], int]
    ) -> None:
        await started(engine, fake_spec(free_port(), "--ignore-sigterm"))
        caller = asyncio.create_task(engine.stop(grace_s=0.3))
        await engine.wait_until({EngineState.STOPPING}, timeout_s=5)
        caller.cancel()
        await engine.wait_until(STOPPED, timeout_s=DEADLINE_S)
        assert living(ENGINE_ID) == set()

    async def test_members_that_outlive_sigkill_are_named_and_the_engine_is_failed(
        self, tmp_path: Path, free_port: Callable[[], int]
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

    async def test_a_stop_of_what_does_not_run_does_nothing(self, engine: Engine) -> None:
        await engine.stop()
        assert engine.status.state is EngineState.STOPPED

    @every_round
    async def test_shared_memory_is_swept_but_never_another_engines(
        self,
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


class TestFailure:
    @every_round
    async def test_exit_before_ready_is_failed_with_its_code_and_the_logs_own_words(
        self, engine: Engine, free_port: Callable[[], int], round_number: int
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
        self, engine: Engine, free_port: Callable[[], int], round_number: int
    ) -> None:
        await engine.start(fake_spec(free_port(), "--never-ready", "--workers", "2", ready_timeout_s=1.5))
        status = await engine.wait_until(FAILED, timeout_s=DEADLINE_S)
        assert "not ready within 2 s" in status.reason
        assert status.hint
        assert living(ENGINE_ID) == set()

    @every_round
    async def test_a_killed_leader_is_failed_and_its_workers_end(
        self, engine: Engine, tmp_path: Path, free_port: Callable[[], int], round_number: int
    ) -> None:
        await started(engine, fake_spec(free_port(), "--workers", "3", "--ignore-sigterm"))
        os.kill(process_of(engine, tmp_path).leader.pid, signal.SIGKILL)
        status = await engine.wait_until(FAILED, timeout_s=DEADLINE_S)
        assert status.returncode == -9
        assert "SIGKILL" in status.reason and "memory" in status.hint
        assert living(ENGINE_ID) == set()

    @every_round
    async def test_a_killed_worker_fails_the_engine_and_all_of_it_ends(
        self, engine: Engine, tmp_path: Path, free_port: Callable[[], int], round_number: int
    ) -> None:
        await started(engine, fake_spec(free_port(), "--workers", "3"))
        os.kill(pids_but_leader(engine, tmp_path)[0], signal.SIGKILL)
        status = await engine.wait_until(FAILED, timeout_s=DEADLINE_S)
        assert status.returncode == 1
        assert "died unexpectedly" in status.reason
        assert living(ENGINE_ID) == set()

    @every_round
    async def test_a_killed_keeper_fails_the_engine_and_all_of_it_ends(
        self,
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
        assert (status.returncode, "keeper" in status.reason) == (None, True)
        assert living(ENGINE_ID) == set()
        assert not made & {shared.name for shared in list_shared()}
        assert not Path(process.temporary).exists()

    @every_round
    async def test_death_in_the_middle_of_an_answer_is_failed(
        self, engine: Engine, free_port: Callable[[], int], round_number: int
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
        self, engine: Engine, free_port: Callable[[], int], round_number: int
    ) -> None:
        spec = fake_spec(free_port(), "--flood-mb-per-s", "50")
        await started(engine, spec)
        await eventually(lambda: engine.log.skipped_bytes > 20e6, what="a flood")
        assert len(engine.log.since(0).lines) <= 2000
        await engine.stop()
        assert (engine.status.state, living(ENGINE_ID)) == (EngineState.STOPPED, set())

    @every_round
    async def test_a_living_engine_without_answers_is_unreachable_and_can_be_stopped(
        self, engine: Engine, free_port: Callable[[], int], round_number: int
    ) -> None:
        await started(engine, fake_spec(free_port(), "--hang-health", "--workers", "2"))
        status = await engine.wait_until({EngineState.UNREACHABLE}, timeout_s=DEADLINE_S)
        assert "/health" in status.reason
        await engine.stop()
        assert (engine.status.state, living(ENGINE_ID)) == (EngineState.STOPPED, set())

    async def test_a_paused_engine_is_unreachable_and_ready_again_by_itself(
        self, engine: Engine, tmp_path: Path, free_port: Callable[[], int]
    ) -> None:
        before = await started(engine, fake_spec(free_port()))
        leader = process_of(engine, tmp_path).leader.pid
        os.kill(leader, signal.SIGSTOP)
        await engine.wait_until({EngineState.UNREACHABLE}, timeout_s=DEADLINE_S)
        os.kill(leader, signal.SIGCONT)
        after = await engine.wait_until(READY, timeout_s=DEADLINE_S)
        assert after.ready_at == before.ready_at and after.since > before.since and after.reason == ""

    async def test_a_failed_engine_can_be_started_again_and_earlier_runs_are_kept(
        self, engine: Engine, tmp_path: Path, free_port: Callable[[], int]
    ) -> None:
        await engine.start(fake_spec(free_port(), "--exit-early", "3"))
        await engine.wait_until(FAILED, timeout_s=DEADLINE_S)
        await started(engine, fake_spec(free_port()))
        assert [(run.number, run.outcome, run.returncode) for run in engine.runs] == [
            (1, EngineState.FAILED, 3),
            (2, None, None),
        ]
        assert "broken" in (tmp_path / f"{ENGINE_ID}/runs/1/log/000000000000000.log").read_text()


class TestAdoption:
    @every_round
    async def test_a_ready_engine_is_adopted_with_its_times_and_log(
        self, engine: Engine, next_panel: Engine, free_port: Callable[[], int], round_number: int
    ) -> None:
        before = await started(engine, fake_spec(free_port(), "--workers", "2"))
        await engine.close()
        await next_panel.adopt()
        assert next_panel.status == replace(before, adopted=True, expected_ready_s=engine.runs[-1].ready_s)
        assert next_panel.spec == engine.spec
        assert any("startup complete" in line for line in next_panel.log.last_lines(99))
        await next_panel.stop()
        assert (next_panel.status.state, living(ENGINE_ID)) == (EngineState.STOPPED, set())

    @every_round
    async def test_a_starting_engine_is_adopted_at_its_stage_and_becomes_ready(
        self, engine: Engine, next_panel: Engine, free_port: Callable[[], int], round_number: int
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
        self, engine: Engine, next_panel: Engine, free_port: Callable[[], int]
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
        self, engine: Engine, next_panel: Engine, free_port: Callable[[], int]
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
        self, engine: Engine, next_panel: Engine, tmp_path: Path, free_port: Callable[[], int], round_number: int
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
        self, engine: Engine, next_panel: Engine, tmp_path: Path, free_port: Callable[[], int], round_number: int
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
        self, engine: Engine, next_panel: Engine, tmp_path: Path, free_port: Callable[[], int]
    ) -> None:
        await started(engine, fake_spec(free_port()))
        await engine.close()
        pretend_running(tmp_path / ENGINE_ID / "record.json", stopping=True)
        await next_panel.adopt()
        assert next_panel.status.state is EngineState.STOPPING
        await next_panel.wait_until(STOPPED, timeout_s=DEADLINE_S)
        assert living(ENGINE_ID) == set()

    async def test_an_engine_that_ended_during_an_unfinished_stop_is_stopped_not_failed(
        self, engine: Engine, next_panel: Engine, tmp_path: Path, free_port: Callable[[], int]
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
        self, engine: Engine, next_panel: Engine, tmp_path: Path, free_port: Callable[[], int], field: str
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
        assert next_panel.status.state is EngineState.FAILED
        assert bystander.returncode is None
        os.kill(bystander.pid, 0)
        bystander.kill()
        await bystander.wait()

    async def test_a_finished_run_is_restored_with_its_log(
        self, engine: Engine, next_panel: Engine, free_port: Callable[[], int]
    ) -> None:
        await engine.start(fake_spec(free_port(), "--exit-early", "3"))
        failed = await engine.wait_until(FAILED, timeout_s=DEADLINE_S)
        await engine.close()
        await next_panel.adopt()
        assert next_panel.status == failed
        assert any("the fake weights are broken" in line for line in next_panel.log.last_lines(99))

    @pytest.mark.parametrize("content", ["", "{", '{"spec": 1}', "\x00\x00\x00"])
    async def test_a_corrupt_record_is_reported_and_what_lives_of_it_is_ended(
        self, engine: Engine, next_panel: Engine, tmp_path: Path, free_port: Callable[[], int], content: str
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
        self, engine: Engine, next_panel: Engine, tmp_path: Path, free_port: Callable[[], int]
    ) -> None:
        await started(engine, fake_spec(free_port(), "--workers", "2"))
        await engine.close()
        (tmp_path / ENGINE_ID / "runs" / "1" / "process.json").write_text("{")
        await next_panel.adopt()
        assert next_panel.status.state is EngineState.FAILED
        assert living(ENGINE_ID) == set()

    async def test_a_panel_that_died_between_record_and_spawn_leaves_a_failed_engine(
        self, engine: Engine, next_panel: Engine, tmp_path: Path, free_port: Callable[[], int]
    ) -> None:
        await started(engine, fake_spec(free_port()))
        await engine.stop()
        pretend_running(tmp_path / ENGINE_ID / "record.json", stopping=False)
        for path in (tmp_path / ENGINE_ID / "runs" / "1").glob("*.json"):
            path.unlink()
        await next_panel.adopt()
        assert next_panel.status.state is EngineState.FAILED
        assert "did not come to life" in next_panel.status.reason


async def eventually_healthy(client: httpx.AsyncClient, spec: LaunchSpec) -> None:
    """Wait for /health 200 by asking ourselves."""
    for _ in range(3000):
        try:
            if (await client.get(f"{spec.base_url}/health")).status_code == 200:
                return
        except httpx.TransportError:
            await asyncio.sleep(0.01)
    raise AssertionError("it did not become healthy")


async def test_watching_a_ready_engine_costs_next_to_nothing(engine: Engine, free_port: Callable[[], int]) -> None:
    # at the quick test timing, ten looks and ten questions a second, many times the real rate
    await started(engine, fake_spec(free_port()))
    before, begun = time.process_time(), time.monotonic()
    await asyncio.sleep(2.0)
    share = (time.process_time() - before) / (time.monotonic() - begun)
    assert share < 0.10
    assert engine.status.state in RUNNING_STATES
    assert find_marked(f"{ENGINE_ID}/")
