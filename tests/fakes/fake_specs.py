"""What tests need to run tests/fakes/engine_process.py through the real engine care: specs, quick timings, proof of no orphan."""

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from backend.engine.engine import EngineTiming
from backend.engine.process import all_pids, find_marked
from backend.failure.failure import LaunchContext
from backend.launch.plan import LaunchSpec

FAKE_ENGINE = Path(__file__).parent / "engine_process.py"
ENGINE_ID = f"testengine{os.getpid()}"  # found by marker, so two test runs on one machine must not share it
ROUNDS = range(int(os.environ.get("VOLTA_ROUNDS", "3")))
DEADLINE_S = 30.0  # for what takes well under a second on an idle machine

# Fleets of tests that run side by side must not hand out the same ports: an engine binds its own some time later.
TEST_PORTS = 10_000 + os.getpid() % 400 * 50

QUICK = EngineTiming(
    busy_poll_s=0.05,
    calm_poll_s=0.1,
    health_every_s=0.1,
    health_timeout_s=0.5,
    health_failures=3,
)


def fake_spec(port: int, *faults: str, preset: str = "fake", ready_timeout_s: float | None = 60.0) -> LaunchSpec:
    """A spec that launches the fake engine. -I -S: nothing of the panel's environment, and a quick start."""
    return LaunchSpec(
        title=preset.capitalize(),
        preset=preset,
        argv=(sys.executable, "-I", "-S", str(FAKE_ENGINE), "--port", str(port), *faults),
        port=port,
        context=LaunchContext(port=port),
        served_model="fake-model",
        ready_timeout_s=ready_timeout_s,
    )


def living(engine_id: str) -> set[int]:
    """Pids of every process that carries a run marker of this engine."""
    return {member.pid for member in find_marked(f"{engine_id}/")}


def keepers(folder: Path) -> set[int]:
    """Pids of the keepers of runs below `folder`."""
    return {
        pid for pid in all_pids() if b"backend.engine.keeper" in (line := _command_line(pid)) and bytes(folder) in line
    }


async def mapped(engine_id: str, count: int) -> set[str]:
    """Wait until the engine's processes have mapped `count` shared-memory files, and name them."""
    await eventually(lambda: len(mapped_names(living(engine_id))) == count, what=f"{count} mapped files")
    return mapped_names(living(engine_id))


def mapped_names(pids: set[int]) -> set[str]:
    """Names of the psm_ files that these processes have mapped."""
    lines = [line for pid in pids for line in _maps(pid).splitlines()]
    return {line.rpartition("/")[2] for line in lines if "/dev/shm/psm_" in line}


def _maps(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return ""


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def eventually(holds: Callable[[], bool], *, what: str, deadline_s: float = DEADLINE_S) -> None:
    """Wait until `holds`, looking often; fails with `what`."""
    give_up = time.monotonic() + deadline_s
    while not holds():
        assert time.monotonic() < give_up, f"not within {deadline_s:.0f} s: {what}"
        await asyncio.sleep(0.01)


def eventually_blocking(holds: Callable[[], bool], *, what: str, deadline_s: float = DEADLINE_S) -> None:
    """The same outside an event loop."""
    give_up = time.monotonic() + deadline_s
    while not holds():
        assert time.monotonic() < give_up, f"not within {deadline_s:.0f} s: {what}"
        time.sleep(0.01)
