"""Engines that are started without a person: again after a crash, and once after each boot; never against a wish."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from backend.engine.care import Care, CarePolicy
from backend.engine.engine import Engine
from backend.engine.fleet import Fleet
from backend.engine.process import is_alive
from backend.engine.run_folder import RunFolder, RunProcess
from backend.engine.status import EngineState, EngineStatus, GaveUp
from backend.errors import LaunchError
from tests.fakes.engine_runs import FAILED, READY
from tests.fakes.fake_specs import DEADLINE_S, QUICK, ROUNDS, TEST_PORTS, eventually, fake_spec, keepers, living

pytestmark = pytest.mark.faults
every_round = pytest.mark.parametrize("round_number", ROUNDS)

AGAIN = Care(restart_on_crash=True)
SOON = CarePolicy(delays_s=(0.3,), limit=2)
LATER = CarePolicy(delays_s=(60.0,))


@asynccontextmanager
async def panel(folder: Path, policy: CarePolicy = SOON, *, stop: bool = False) -> AsyncIterator[Fleet]:
    """A fleet as one panel has it; its engines live on unless `stop`."""
    fleet = Fleet(folder, first_port=TEST_PORTS, timing=QUICK, policy=policy)
    try:
        await fleet.adopt_all()
        yield fleet
    except BaseException:
        await fleet.stop_all()
        raise
    finally:
        if stop:
            await fleet.stop_all()
        await fleet.close()
    if stop:
        assert [living(engine_id) for engine_id in fleet.engines] == [set() for _ in fleet.engines]
        assert keepers(folder) == set()


async def launched(fleet: Fleet, *faults: str, care: Care = AGAIN, ready: bool = True) -> Engine:
    engine_id = await fleet.launch(fake_spec(fleet.claim_port("one"), *faults, preset="one"))
    fleet.set_care(engine_id, care)
    engine = fleet.engines[engine_id]
    if ready:
        await engine.wait_until(READY, timeout_s=DEADLINE_S)
    return engine


def process_of(folder: Path, engine: Engine) -> RunProcess:
    process = RunFolder(folder / engine.engine_id / "runs" / str(engine.status.run)).read_process()
    assert process is not None
    return process


async def crash(folder: Path, engine: Engine) -> EngineStatus:
    """Kill its leader and wait until that was noticed."""
    run = engine.status.run
    os.kill(process_of(folder, engine).leader.pid, signal.SIGKILL)
    await eventually(lambda: engine.status.state in FAILED or engine.status.run != run, what="the crash")
    return engine.status


async def ready_in_run(engine: Engine, number: int) -> EngineStatus:
    await eventually(
        lambda: engine.status.run == number and engine.status.state in READY, what=f"run {number} is ready"
    )
    return engine.status


def another_boot(folder: Path) -> None:
    """As if the machine had been restarted since."""
    (folder / "boot.json").write_text(json.dumps({"boot_id": "an earlier one", "todo": []}))


class TestAfterACrash:
    @every_round
    async def test_a_crashed_engine_is_started_again_and_counts_it(self, tmp_path: Path, round_number: int) -> None:
        async with panel(tmp_path, stop=True) as fleet:
            engine = await launched(fleet, "--workers", "2")
            status = await crash(tmp_path, engine)
            assert status.run == 2 or status.restart_at is not None
            status = await ready_in_run(engine, 2)
            assert (status.restarts, status.restart_at, status.gave_up) == (1, None, None)
            assert [run.failure.rule if run.failure else None for run in engine.runs] == ["killed", None]

    async def test_it_is_given_up_when_it_crashes_too_often(self, tmp_path: Path) -> None:
        async with panel(tmp_path, stop=True) as fleet:
            engine = await launched(fleet)
            for number in (2, 3):
                await crash(tmp_path, engine)
                await ready_in_run(engine, number)
            status = await crash(tmp_path, engine)
            assert (status.state, status.gave_up, status.restart_at) == (EngineState.FAILED, GaveUp.LIMIT, None)
            await fleet.restart(engine.engine_id)
            assert (engine.status.gave_up, engine.status.restarts) == (None, 0), "a person begins anew"

    async def test_without_the_wish_nothing_is_started(self, tmp_path: Path) -> None:
        async with panel(tmp_path, stop=True) as fleet:
            engine = await launched(fleet, care=Care())
            status = await crash(tmp_path, engine)
            assert (status.restart_at, status.gave_up) == (None, None)

    async def test_a_start_that_would_fail_the_same_way_is_not_repeated(self, tmp_path: Path) -> None:
        async with panel(tmp_path, stop=True) as fleet:
            engine = await launched(fleet, "--slow-start", "1", "--exit-early", "2", ready=False)
            status = await engine.wait_until(FAILED, timeout_s=DEADLINE_S)
            assert (status.restart_at, status.gave_up) == (None, GaveUp.USELESS)

    async def test_a_person_who_stops_it_while_the_crash_is_cleaned_up_is_obeyed(self, tmp_path: Path) -> None:
        async with panel(tmp_path, LATER, stop=True) as fleet:
            engine = await launched(fleet, "--workers", "3", "--ignore-sigterm")
            os.kill(process_of(tmp_path, engine).leader.pid, signal.SIGKILL)
            await eventually(lambda: engine.status.state is EngineState.STOPPING, what="the crash is seen")
            await fleet.stop(engine.engine_id)
            assert engine.status.state is EngineState.FAILED
            assert (engine.status.restart_at, engine.status.gave_up) == (None, None)

    @pytest.mark.parametrize("how", ["stop", "start", "no longer wanted", "forget"])
    async def test_a_person_cancels_a_pending_restart(self, tmp_path: Path, how: str) -> None:
        async with panel(tmp_path, LATER, stop=True) as fleet:
            engine = await launched(fleet)
            status = await crash(tmp_path, engine)
            assert status.restart_at is not None
            match how:
                case "stop":
                    await fleet.stop(engine.engine_id)
                case "start":
                    await fleet.launch(fake_spec(fleet.claim_port("one"), preset="one"))
                    await ready_in_run(engine, 2)
                case "no longer wanted":
                    fleet.set_care(engine.engine_id, Care())
                case "forget":
                    await fleet.forget(engine.engine_id)
            assert engine.status.restart_at is None
            await eventually(
                lambda: not any(task.get_name().startswith("restart of") for task in asyncio.all_tasks()),
                what="nothing is pending",
            )

    async def test_a_persons_stop_is_no_crash(self, tmp_path: Path) -> None:
        async with panel(tmp_path, stop=True) as fleet:
            engine = await launched(fleet, "--ignore-sigterm")
            await fleet.stop(engine.engine_id, grace_s=0.2)
            assert (engine.status.returncode, engine.status.restart_at) == (-9, None)

    async def test_a_port_taken_meanwhile_ends_the_trying(self, tmp_path: Path) -> None:
        async with panel(tmp_path, stop=True) as fleet:
            engine = await launched(fleet)
            assert engine.spec is not None
            await crash(tmp_path, engine)
            server = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", engine.spec.port)
            async with server:
                await eventually(lambda: engine.status.gave_up is not None, what="giving up")
            assert engine.status.gave_up is GaveUp.REFUSED

    async def test_a_restart_that_was_pending_is_carried_out_by_the_next_panel(self, tmp_path: Path) -> None:
        async with panel(tmp_path, CarePolicy(delays_s=(1.0,))) as fleet:
            engine = await launched(fleet)
            await crash(tmp_path, engine)
        async with panel(tmp_path, stop=True) as fleet:
            engine = fleet.engines[engine.engine_id]
            assert (await ready_in_run(engine, 2)).restarts == 1

    @pytest.mark.parametrize(("care", "runs"), [(AGAIN, 2), (Care(), 1), (Care(autostart=True), 1)])
    async def test_an_engine_that_crashed_without_a_panel_is_started_again_only_on_that_wish(
        self, tmp_path: Path, care: Care, runs: int
    ) -> None:
        async with panel(tmp_path) as fleet:
            engine = await launched(fleet, care=care)
        process = process_of(tmp_path, engine)
        os.kill(process.leader.pid, signal.SIGKILL)
        await eventually(lambda: not is_alive(process.keeper), what="the keeper is done")
        async with panel(tmp_path, stop=True) as fleet:
            engine = fleet.engines[engine.engine_id]
            if runs == 2:
                await ready_in_run(engine, 2)
            await asyncio.sleep(0.5)  # longer than the delay of a restart
            assert len(engine.runs) == runs

    async def test_a_wish_that_comes_after_the_crash_is_for_the_next_one(self, tmp_path: Path) -> None:
        async with panel(tmp_path, stop=True) as fleet:
            engine = await launched(fleet, care=Care())
            await crash(tmp_path, engine)
            fleet.set_care(engine.engine_id, AGAIN)
            assert engine.status.restart_at is None


class TestAfterABoot:
    async def test_engines_with_autostart_are_started_once_in_a_boot(self, tmp_path: Path) -> None:
        async with panel(tmp_path, stop=True) as fleet:
            engine = await launched(fleet, care=Care(autostart=True))
        another_boot(tmp_path)
        async with panel(tmp_path, stop=True) as fleet:
            await ready_in_run(fleet.engines[engine.engine_id], 2)
        async with panel(tmp_path, stop=True) as fleet:
            await asyncio.sleep(0.3)
            assert fleet.engines[engine.engine_id].status.state is EngineState.STOPPED
            assert len(fleet.engines[engine.engine_id].runs) == 2

    async def test_others_are_not_and_neither_is_what_crashed_in_an_earlier_boot(self, tmp_path: Path) -> None:
        async with panel(tmp_path, LATER) as fleet:
            engine = await launched(fleet)
            await crash(tmp_path, engine)
        another_boot(tmp_path)
        async with panel(tmp_path, stop=True) as fleet:
            await asyncio.sleep(0.3)
            status = fleet.engines[engine.engine_id].status
            assert (status.state, status.run, status.restart_at) == (EngineState.FAILED, 1, None)

    async def test_a_start_that_is_refused_is_told(self, tmp_path: Path) -> None:
        async with panel(tmp_path, stop=True) as fleet:
            engine = await launched(fleet, care=Care(autostart=True))
        assert engine.spec is not None
        another_boot(tmp_path)
        server = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", engine.spec.port)
        async with server, panel(tmp_path, stop=True) as fleet:
            status_of = fleet.engines[engine.engine_id]
            await eventually(lambda: status_of.status.gave_up is GaveUp.REFUSED, what="the refusal")

    async def test_an_unreadable_boot_file_starts_nothing(self, tmp_path: Path) -> None:
        async with panel(tmp_path, stop=True) as fleet:
            engine = await launched(fleet, care=Care(autostart=True))
        (tmp_path / "boot.json").write_text("{")
        async with panel(tmp_path, stop=True) as fleet:
            await asyncio.sleep(0.3)
            assert fleet.engines[engine.engine_id].status.state is EngineState.STOPPED


class TestByHand:
    async def test_a_restart_ends_a_running_engine_and_starts_the_same_again(self, tmp_path: Path) -> None:
        async with panel(tmp_path, stop=True) as fleet:
            engine = await launched(fleet, "--workers", "1")
            before, spec = living(engine.engine_id), engine.spec
            await fleet.restart(engine.engine_id)
            assert not before & living(engine.engine_id)
            await ready_in_run(engine, 2)
            assert engine.spec == spec
            assert [run.outcome for run in engine.runs] == [EngineState.STOPPED, None]

    async def test_a_restart_of_a_stopped_engine_starts_it(self, tmp_path: Path) -> None:
        async with panel(tmp_path, stop=True) as fleet:
            engine = await launched(fleet)
            await fleet.stop_and_wait(engine.engine_id)
            await fleet.restart(engine.engine_id)
            await ready_in_run(engine, 2)

    async def test_the_wishes_are_remembered(self, tmp_path: Path) -> None:
        async with panel(tmp_path, stop=True) as fleet:
            engine = await launched(fleet, care=Care(True, True))
        async with panel(tmp_path) as fleet:
            assert fleet.care(engine.engine_id) == Care(True, True)

    async def test_the_log_of_each_run_can_be_had_and_a_missing_one_is_an_error(self, tmp_path: Path) -> None:
        async with panel(tmp_path, stop=True) as fleet:
            engine = await launched(fleet)
            await fleet.restart(engine.engine_id)
            assert b"Application startup complete" in b"".join(fleet.run_log(engine.engine_id, 1))
            for engine_id, number in ((engine.engine_id, 9), ("nobody", 1)):
                with pytest.raises(LaunchError):
                    fleet.run_log(engine_id, number)
