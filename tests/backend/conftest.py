"""Fixtures of the engine tests: engines and fleets that are ended whatever happens, and ports."""

import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from backend.engine.engine import Engine
from backend.engine.fleet import Fleet
from tests.fakes.fake_specs import ENGINE_ID, QUICK, TEST_PORTS, keepers, living


@pytest.fixture
def free_port() -> Callable[[], int]:
    """Gives ports that nobody listens on."""

    def claim() -> int:
        with socket.socket() as attempt:
            attempt.bind(("127.0.0.1", 0))
            port: int = attempt.getsockname()[1]
            return port

    return claim


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    """An engine that has never run. Whatever the test leaves is stopped, and nothing may be alive then."""
    engine = Engine(ENGINE_ID, tmp_path / ENGINE_ID, timing=QUICK)
    yield engine
    await engine.stop(grace_s=0.0)
    await engine.close()
    assert living(ENGINE_ID) == set()
    assert keepers(tmp_path) == set()


@pytest.fixture
async def next_panel(tmp_path: Path) -> AsyncIterator[Engine]:
    """The same engine as a later panel sees it; it must not be looked after by an earlier one any more."""
    engine = Engine(ENGINE_ID, tmp_path / ENGINE_ID, timing=QUICK)
    yield engine
    await engine.stop(grace_s=0.0)
    await engine.close()


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    """An empty fleet; its engines are stopped afterwards."""
    fleet = Fleet(tmp_path / "engines", first_port=TEST_PORTS, timing=QUICK)
    await fleet.adopt_all()
    yield fleet
    await fleet.stop_all()
    await fleet.close()
    assert keepers(tmp_path) == set()
