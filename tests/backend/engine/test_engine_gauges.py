"""Memory and slowness of a real engine process, shown in its status while they hold."""

import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from backend.engine.engine import OWN_QUESTIONS, Engine
from backend.engine.memory import CardUse
from backend.engine.status import EngineState, NoticeKey, StopPhase
from tests.fakes.engine_runs import started
from tests.fakes.fake_specs import ENGINE_ID, QUICK, eventually, fake_spec, living

pytestmark = pytest.mark.faults

GIB = 1024**3


@pytest.fixture
async def gauged(tmp_path: Path) -> AsyncIterator[Engine]:
    """An engine whose gauges are read often."""
    engine = Engine(ENGINE_ID, tmp_path / ENGINE_ID, timing=replace(QUICK, gauges_every_s=0.2))
    yield engine
    await engine.stop(grace_s=0.0)
    await engine.close()


async def test_memory_is_that_of_all_members(gauged: Engine, free_port: Callable[[], int]) -> None:
    await started(gauged, fake_spec(free_port(), "--workers", "2"))
    await eventually(lambda: isinstance(gauged.status.memory_bytes, int), what="memory")
    assert isinstance(gauged.status.memory_bytes, int) and gauged.status.memory_bytes > 1_000_000
    assert gauged.status.gpu_memory_bytes is None, "no cards here"


async def test_an_engine_that_preempts_says_so_and_one_that_does_not_is_quiet(
    gauged: Engine, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    await started(gauged, fake_spec(free_port(), "--preempting"))
    await eventually(
        lambda: {notice.key for notice in gauged.status.notices} == {NoticeKey.PREEMPTING, NoticeKey.KV_FULL},
        what="both notices",
    )
    await gauged.stop()
    assert gauged.status.notices == ()
    await started(gauged, fake_spec(free_port()))
    await eventually(lambda: isinstance(gauged.status.memory_bytes, int), what="a look at the gauges")
    assert gauged.status.notices == ()


async def test_a_stop_waits_until_the_driver_has_freed_the_cards_memory_and_says_so(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:
    phases: list[StopPhase | None] = []
    looks_after_end = 0

    def cards() -> tuple[CardUse, ...]:
        """A card that shows the memory of ended processes for a few looks more, as drivers do."""
        nonlocal looks_after_end
        pids = living(ENGINE_ID)
        looks_after_end += 0 if pids else 1
        held = GIB if pids or looks_after_end < 3 else 0

        return (CardUse("GPU-1", held, time.time() + 1, dict.fromkeys(pids, GIB // max(1, len(pids)))),)

    engine = Engine(
        ENGINE_ID,
        tmp_path / ENGINE_ID,
        timing=replace(QUICK, gauges_every_s=0.2),
        cards=cards,
        on_change=lambda engine: phases.append(engine.status.stop_phase),
    )
    await started(engine, fake_spec(free_port()))
    await eventually(lambda: engine.status.gpu_memory_bytes == GIB, what="its card memory")
    await engine.stop()
    assert (engine.status.state, engine.status.stop_phase) == (EngineState.STOPPED, None)
    assert [phase for index, phase in enumerate(phases) if phase and phase not in phases[:index]] == [
        StopPhase.ENDING,
        StopPhase.RELEASING_MEMORY,
    ]
    assert looks_after_end >= 3


async def test_memory_that_is_not_freed_in_time_is_told_and_the_engine_is_stopped(
    tmp_path: Path, free_port: Callable[[], int]
) -> None:

    def cards() -> tuple[CardUse, ...]:
        return (CardUse("GPU-1", GIB, time.time() + 1, dict.fromkeys(living(ENGINE_ID), GIB)),)

    timing = replace(QUICK, release_deadline_s=0.5)
    engine = Engine(ENGINE_ID, tmp_path / ENGINE_ID, timing=timing, cards=cards)
    await started(engine, fake_spec(free_port()))
    await engine.stop()
    assert engine.status.state is EngineState.STOPPED
    assert "memory of its cards is not free" in engine.status.reason


@pytest.mark.parametrize("path", ["health", "metrics"])
def test_our_own_questions_are_hidden_from_the_log(path: str) -> None:
    assert OWN_QUESTIONS.search(f'INFO:     127.0.0.1:41210 - "GET /{path} HTTP/1.1" 200 OK')
    assert not OWN_QUESTIONS.search(f'INFO:     127.0.0.1:41210 - "GET /{path}z HTTP/1.1" 200 OK')
