"""What the panel understands of a reader, and how a reader is ended."""

import asyncio
import time
from pathlib import Path

import pytest

from backend.gpu.child import (
    CardSample,
    DriverFound,
    ReaderChild,
    ReaderEnded,
    ReaderFailed,
    kept_environment,
    parse_message,
)
from backend.reading import Missing, MissingReason
from tests.fakes.fakenvml import FakeMachine, build_library


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def machine(tmp_path: Path, library: Path) -> FakeMachine:
    return FakeMachine(tmp_path, library=library)


def test_a_sample_gives_values_and_reasons() -> None:
    line = b'{"kind": "sample", "taken_at": 5.0, "readings": {"a": 1, "b": {"missing": "denied", "detail": "no"}}}\n'
    assert parse_message(line) == CardSample(5.0, {"a": 1, "b": Missing(MissingReason.DENIED, "no")})


def test_processes_become_a_mapping() -> None:
    line = b'{"kind": "sample", "taken_at": 5.0, "readings": {"process_memory_bytes": [[77, 1024]]}}\n'
    assert parse_message(line) == CardSample(5.0, {"process_memory_bytes": {77: 1024}})


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"\xff\xfe\n",
        b"NVML warning\n",
        b"[]\n",
        b"7\n",
        b"{}\n",
        b'{"kind": "new"}\n',
        b'{"kind": "probe"}\n',
        b'{"kind": "sample", "taken_at": 1, "readings": {"a": {"missing": "unheard of", "detail": ""}}}\n',
    ],
)
def test_a_line_that_is_no_message_is_passed_over(line: bytes) -> None:
    assert parse_message(line) is None


def test_a_reader_gets_no_secret_of_the_panel() -> None:
    environment = {"PATH": "/bin", "LD_LIBRARY_PATH": "/lib", "HF_TOKEN": "secret", "PYTHONPATH": "/elsewhere"}
    assert kept_environment(environment) == {"PATH": "/bin", "LD_LIBRARY_PATH": "/lib"}


async def test_a_probe_answers_and_ends_by_itself(machine: FakeMachine) -> None:
    machine.play(["count = 3"])
    child = ReaderChild(("probe",), environment=machine.environment)
    await child.start()
    assert await child.message(within_s=20) == DriverFound("580.95.05", "580.95.05", 3)
    assert await child.message(within_s=20) == ReaderEnded(0)
    assert await child.end(within_s=5)


async def test_a_failed_reader_says_why_and_ends_with_status_1(machine: FakeMachine) -> None:
    machine.play(["init = 9"])
    child = ReaderChild(("probe",), environment=machine.environment)
    await child.start()
    message = await child.message(within_s=20)
    assert isinstance(message, ReaderFailed)
    assert (message.stage, message.code) == ("init", 9)
    assert await child.message(within_s=20) == ReaderEnded(1)
    assert await child.end(within_s=5)


async def test_a_reader_between_two_readings_ends_at_once_and_without_a_signal(machine: FakeMachine) -> None:
    machine.play(["count = 1"])
    child = ReaderChild(("watch", "index:0", "60"), environment=machine.environment)
    await child.start()
    await child.message(within_s=20)
    await child.message(within_s=20)
    began = time.monotonic()
    assert await child.end(within_s=10)
    assert time.monotonic() - began < 5
    assert child.returncode == 0


async def test_a_silent_reader_is_a_timeout_and_its_whole_group_is_killed(machine: FakeMachine) -> None:
    machine.play(["hang.kind = uninterruptible", "init.hang = 60"])
    child = ReaderChild(("probe",), environment=machine.environment)
    await child.start()
    with pytest.raises(TimeoutError):
        await child.message(within_s=1.0)
    assert child.pid is not None
    assert child.kernel_state() == "D"
    assert await child.end(within_s=2.0)
    async with asyncio.timeout(10):
        while living_members(child.pid):
            await asyncio.sleep(0.02)


async def test_a_child_that_never_started_is_gone() -> None:
    assert await ReaderChild(("probe",), environment={}).end(within_s=0.1)


def living_members(group: int) -> list[int]:
    """Processes of a group that are not zombies."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split() if entry.name.isdigit() else []
        except OSError:
            continue
        if fields and int(fields[2]) == group and fields[0] != "Z":
            found.append(int(entry.name))
    return found
