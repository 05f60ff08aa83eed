"""Runs of the fake engine as tests of the real engine care start and look at them."""

import asyncio
import json
from pathlib import Path

import httpx

from backend.engine.engine import Engine
from backend.engine.run_folder import RunFolder, RunProcess
from backend.engine.status import EngineState, EngineStatus
from backend.launch.plan import LaunchSpec
from tests.fakes.fake_specs import DEADLINE_S, ENGINE_ID, living

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


async def eventually_healthy(client: httpx.AsyncClient, spec: LaunchSpec) -> None:
    """Wait for /health 200 by asking ourselves."""
    for _ in range(3000):
        try:
            if (await client.get(f"{spec.base_url}/health")).status_code == 200:
                return
        except httpx.TransportError:
            await asyncio.sleep(0.01)
    raise AssertionError("it did not become healthy")
