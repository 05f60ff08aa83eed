"""`python -m backend.setup.install`: real processes, the real pip and small wheels; killed, cancelled, queued, refused."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.environment.environment import EnvironmentState, LackKey, environments_in
from backend.setup.setup_lock import setup_lock
from tests.fakes.engine_wheels import MANY_FILES, environ_for, make_checkout, make_wheels
from tests.fakes.wheelhouse import Wheelhouse

ROUNDS = range(int(os.environ.get("VOLTA_ROUNDS", "3")))
DEADLINE_S = 90.0
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Wheelhouse:
    return make_wheels(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkout(tmp_path_factory.mktemp("checkout"))


@pytest.fixture
def start(checkout: Path, wheels: Wheelhouse, tmp_path: Path) -> Iterator[Start]:
    begun: list[subprocess.Popen[bytes]] = []

    def start_one(recipe: str = "cpu-0.19.1", *, identifier: str = "abcd2345", **variables: str) -> Any:
        environments = tmp_path / "environments"
        environments.mkdir(exist_ok=True)
        argv = ("-m", "backend.setup.install", "--environments", str(environments), "--recipe", recipe)
        begun.append(
            subprocess.Popen(
                (sys.executable, *argv, "--id", identifier),
                cwd=checkout,
                env={**environ_for(wheels), **variables},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        )
        return begun[-1]

    yield start_one
    for child in begun:
        if child.poll() is None:
            child.kill()
        child.wait(timeout=10)
        assert child.stdout is not None
        child.stdout.close()


def events(child: "subprocess.Popen[bytes]") -> list[dict[str, Any]]:
    output, _ = child.communicate(timeout=DEADLINE_S)
    return [json.loads(line) for line in output.splitlines()]


def wait_for(condition: Callable[[], Any], what: str, timeout_s: float = 60.0) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)
    return value


def installed_modules(environments: Path) -> int:
    return len(list(environments.glob("*/venv/lib/*/site-packages/large/m*.py")))


def living_in(folder: Path) -> list[int]:
    """Processes that name a path below this folder in their command."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
        except OSError:
            continue
        if str(folder).encode() in command and b"\0pytest\0" not in command:
            found.append(int(path.parent.name))
    return found


def test_v100_engine_without_a_card_is_ready_and_says_precisely_what_is_missing(start: Start, tmp_path: Path) -> None:
    told = events(start("v100"))
    assert told[-1] == {"event": "done", "id": "abcd2345"}, told
    titles = [event["title"] for event in told if event["event"] == "step"]
    assert "build and install dflash2" in titles and "install torch" in titles
    (environment,) = environments_in(tmp_path / "environments")
    assert environment.state is EnvironmentState.READY
    assert environment.versions["dflash2"] == "0.1.0"
    details = {lack.key: lack.detail for lack in environment.missing}
    assert details[LackKey.NO_CARD] == "torch.cuda: Found no NVIDIA driver on your system."
    assert "libcuda.so.1 is not there" in details[LackKey.NO_DRIVER]
    assert not (environment.folder / "kernels").exists()


@pytest.mark.faults
@pytest.mark.parametrize("round_number", ROUNDS)
def test_killed_installer_leaves_no_pip_and_the_next_one_goes_on(
    start: Start, tmp_path: Path, round_number: int
) -> None:
    environments = tmp_path / "environments"
    child = start()
    wanted = 1 + (290 * round_number) % MANY_FILES  # another moment in each round
    wait_for(lambda: installed_modules(environments) >= wanted or child.poll() is not None, "pip at its files")
    child.send_signal(signal.SIGKILL)
    child.wait(timeout=10)
    wait_for(lambda: not living_in(environments), "the end of pip", timeout_s=10)
    (environment,) = environments_in(environments)
    assert environment.state is EnvironmentState.INSTALLING

    told = events(start(identifier="efgh2345"))

    assert told[-1] == {"event": "done", "id": "abcd2345"}, told[-3:]
    (environment,) = environments_in(environments)
    assert environment.state is EnvironmentState.READY
    assert installed_modules(environments) == MANY_FILES
    assert environment.install_log.read_text().count("-m venv") == 1, "what was there already was made again"


def test_cancelled_installer_is_gone_within_ten_seconds_and_nothing_is_ready(start: Start, tmp_path: Path) -> None:
    environments = tmp_path / "environments"
    child = start()
    wait_for(lambda: installed_modules(environments) > 10, "pip at its files")
    started = time.monotonic()
    child.send_signal(signal.SIGTERM)
    assert child.wait(timeout=10) == 130
    assert living_in(environments) == []
    assert time.monotonic() - started < 10
    (environment,) = environments_in(environments)
    assert environment.state is EnvironmentState.INSTALLING
    assert not list(environment.folder.glob("tmp/*"))


def test_other_recipe_waits_for_its_turn_and_the_same_one_is_refused(start: Start, tmp_path: Path) -> None:
    environments = tmp_path / "environments"
    with setup_lock(environments):  # somebody else's installation
        waiting = start()
        assert waiting.stdout is not None
        first = json.loads(waiting.stdout.readline())
        if first["event"] == "line":
            first = json.loads(waiting.stdout.readline())
        assert first == {"event": "queued"}
        refused = events(start(identifier="efgh2345"))
        assert refused[-1]["event"] == "failed"
        assert f"process {waiting.pid}" in refused[-1]["message"]
    assert events(waiting)[-1] == {"event": "done", "id": "abcd2345"}


def test_password_of_an_index_is_neither_in_a_command_nor_in_the_log(start: Start, tmp_path: Path) -> None:
    environments = tmp_path / "environments"
    secret = "hunter2"
    child = start(
        PIP_NO_INDEX="0",
        PIP_INDEX_URL=f"http://me:{secret}@127.0.0.1:9/simple",
        VOLTA_TORCH_INDEX_URL=f"http://me:{secret}@127.0.0.1:9/cpu",
        PIP_RETRIES="0",
    )
    commands: list[bytes] = []
    deadline = time.monotonic() + DEADLINE_S
    while child.poll() is None and time.monotonic() < deadline:
        for pid in living_in(environments):
            try:
                commands.append(Path(f"/proc/{pid}/cmdline").read_bytes())
            except OSError:
                continue
        time.sleep(0.02)
    output, _ = child.communicate(timeout=10)
    assert any(b"pip" in command for command in commands)
    assert not any(secret.encode() in command for command in commands)
    assert secret not in output.decode()
    assert all(secret not in log.read_text() for log in environments.glob("*/install.log"))
    assert all(secret not in path.read_text() for path in environments.glob("*/environment.json"))


def test_package_that_no_index_has_fails_with_a_reason_and_what_to_do(
    start: Start, wheels: Wheelhouse, tmp_path: Path
) -> None:
    told = events(start(PIP_FIND_LINKS=str(tmp_path / "empty")))
    assert told[-1]["event"] == "failed"
    assert "'install torch' failed" in told[-1]["message"]
    assert "Try another with --index-url" in told[-1]["hint"]
    (environment,) = environments_in(tmp_path / "environments")
    assert environment.state is EnvironmentState.FAILED


@pytest.mark.parametrize("identifier", ["../../etc", "a/b", "UPPER", "x"])
def test_id_that_could_leave_the_folder_is_refused(start: Start, identifier: str, tmp_path: Path) -> None:
    child = start(identifier=identifier)
    assert child.wait(timeout=DEADLINE_S) == 2
    assert environments_in(tmp_path / "environments") == ()
