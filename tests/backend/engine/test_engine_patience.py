"""How long a real start is waited for: a silent load that reads lives, one in which nothing moves is ended and explained."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from backend.engine.engine import Engine
from backend.engine.patience import PatienceLimits
from backend.engine.status import EngineState, Stage, StageProgress
from backend.failure.failure import Failure
from tests.fakes.engine_runs import FAILED, SETTLED
from tests.fakes.fake_specs import DEADLINE_S, ENGINE_ID, QUICK, ROUNDS, fake_spec, living

pytestmark = pytest.mark.faults
every_round = pytest.mark.parametrize("round_number", ROUNDS)

QUIET = {Stage.SPAWN: 30.0, Stage.IMPORTS: 30.0, Stage.WEIGHTS: 1.5, Stage.KV_CACHE: 30.0, Stage.WARM_UP: 30.0}
IMPATIENT = replace(QUICK, effort_every_s=0.2, patience=PatienceLimits(quiet_s=QUIET))


@pytest.fixture
def impatient(engine: Engine, tmp_path: Path) -> Engine:
    """The same engine with short quiet times; `engine` cleans up after it."""
    return Engine(ENGINE_ID, tmp_path / ENGINE_ID, timing=IMPATIENT)


@every_round
async def test_a_slow_load_that_still_reads_is_not_killed(
    impatient: Engine, free_port: Callable[[], int], round_number: int
) -> None:
    await impatient.start(fake_spec(free_port(), "--read-for", "4", ready_timeout_s=None))
    status = await impatient.wait_until(SETTLED, timeout_s=DEADLINE_S)
    assert status.state is EngineState.READY, status
    await impatient.stop(grace_s=0.0)


@every_round
async def test_a_load_in_which_nothing_moves_is_ended_and_says_where(
    impatient: Engine, free_port: Callable[[], int], round_number: int
) -> None:
    await impatient.start(fake_spec(free_port(), "--never-ready", "--workers", "1", ready_timeout_s=None))
    status = await impatient.wait_until(FAILED, timeout_s=DEADLINE_S)
    failure = status.failure
    assert failure is not None
    assert (failure.rule, failure.phase, failure.values["kind"]) == ("start_overdue", Stage.WEIGHTS, "stalled")
    assert status.progress == StageProgress(Stage.WEIGHTS, 100)
    assert living(ENGINE_ID) == set()


async def test_a_failed_start_keeps_its_stage_and_its_cause_over_a_new_panel(
    engine: Engine, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    await engine.start(fake_spec(free_port(), "--exit-early", "1"))
    failed = await engine.wait_until(FAILED, timeout_s=DEADLINE_S)
    assert failed.progress is not None and failed.progress.stage is Stage.WEIGHTS
    later = Engine(ENGINE_ID, tmp_path / ENGINE_ID, timing=QUICK)
    await later.adopt()
    assert later.status == failed
    assert later.runs[-1].failure == failed.failure


async def test_a_cause_that_a_flood_pushed_out_of_the_ring_is_found_on_disk(
    engine: Engine, free_port: Callable[[], int]
) -> None:
    words = "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata"
    faults = ("--exit-early", "1", "--last-words", words, "--bury-cause", "2500")
    await engine.start(fake_spec(free_port(), *faults))
    status = await engine.wait_until(FAILED, timeout_s=DEADLINE_S)
    assert not any(words in line for line in engine.log.last_lines(2000)), "the ring has lost it"
    assert isinstance(status.failure, Failure) and status.failure.rule == "weights_corrupt"
