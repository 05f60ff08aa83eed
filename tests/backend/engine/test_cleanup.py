"""What is run after an engine to clear up behind it (docker rm -f NAME), and that nothing keeps it from running."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from backend.engine.cleanup import run_cleanup
from backend.engine.engine import Engine
from backend.engine.process import is_alive
from backend.engine.status import EngineState
from tests.fakes.engine_runs import (
    FAILED,
    process_of,
    started,
)
from tests.fakes.fake_specs import DEADLINE_S, ROUNDS, eventually, fake_spec

pytestmark = pytest.mark.faults
every_round = pytest.mark.parametrize("round_number", ROUNDS)


class TestCleanup:
    """The order's cleanup command runs once the members are gone, whoever is left to run it."""

    async def test_it_runs_after_an_end_of_any_kind(
        self, engine: Engine, tmp_path: Path, free_port: Callable[[], int]
    ) -> None:
        mark = tmp_path / "cleaned"
        spec = replace(fake_spec(free_port(), "--exit-early", "3"), cleanup=("/bin/touch", str(mark)))
        await engine.start(spec)
        await engine.wait_until(FAILED, timeout_s=DEADLINE_S)
        assert mark.exists()

    @every_round
    async def test_it_is_not_killed_with_the_members_when_a_start_is_ended_at_once(
        self, engine: Engine, tmp_path: Path, free_port: Callable[[], int], round_number: int
    ) -> None:
        mark = tmp_path / "cleaned"
        slow = ("/bin/sh", "-c", f"sleep 1; touch {mark}")
        await engine.start(replace(fake_spec(free_port(), "--slow-start", "60", "--workers", "1"), cleanup=slow))
        await engine.stop()
        assert mark.exists()

    async def test_the_panel_runs_it_when_the_keeper_was_killed(
        self, engine: Engine, tmp_path: Path, free_port: Callable[[], int]
    ) -> None:
        mark = tmp_path / "cleaned"
        await started(engine, replace(fake_spec(free_port()), cleanup=("/bin/touch", str(mark))))
        os.kill(process_of(engine, tmp_path).keeper.pid, signal.SIGKILL)
        await engine.wait_until(FAILED, timeout_s=DEADLINE_S)
        assert mark.exists()

    async def test_the_next_panel_runs_it_when_both_were_killed(
        self, engine: Engine, next_panel: Engine, tmp_path: Path, free_port: Callable[[], int]
    ) -> None:
        mark = tmp_path / "cleaned"
        await started(engine, replace(fake_spec(free_port()), cleanup=("/bin/touch", str(mark))))
        process = process_of(engine, tmp_path)
        await engine.close()
        os.kill(process.keeper.pid, signal.SIGKILL)
        await eventually(lambda: not is_alive(process.leader), what="the leader dies with its keeper")
        await next_panel.adopt()
        assert mark.exists()

    async def test_a_program_that_is_missing_is_no_obstacle(self, engine: Engine, free_port: Callable[[], int]) -> None:
        await started(engine, replace(fake_spec(free_port()), cleanup=("/no/such/docker", "rm")))
        await engine.stop()
        assert engine.status.state is EngineState.STOPPED


def test_a_command_that_hangs_is_killed_at_its_deadline() -> None:
    begun = time.monotonic()
    assert "did not end" in run_cleanup(("/bin/sleep", "60"), {}, deadline_s=0.2)
    assert time.monotonic() - begun < 5


def test_a_command_that_fails_is_named_with_its_code() -> None:
    assert run_cleanup(("/bin/false",), {}) == "/bin/false ended with 1"
    assert run_cleanup((), {}) == ""
