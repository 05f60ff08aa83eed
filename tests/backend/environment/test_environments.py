"""Environments: real installers, Pythons, a docker client and servers, seen through one owner on a loop."""

import asyncio
import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest

from backend.environment.environment import EngineEnvironment, EnvironmentState, LackKey, write_environment
from backend.environment.environments import Environments
from backend.environment.views import AttachedState, EnvironmentView, InstallState
from backend.errors import LaunchError, SetupError
from backend.launch.engine_kind import EngineKind
from tests.backend.setup.test_install import living_in
from tests.fakes.attached_server import AttachedFake
from tests.fakes.docker_client import FakeDocker
from tests.fakes.engine_folder import STUB_CPU_TORCH, make_environment, make_external_python, stub_engine
from tests.fakes.engine_wheels import environ_for, make_checkout, make_wheels
from tests.fakes.wheelhouse import Wheelhouse

DEADLINE_S = 90.0
INSTALLED = "cpu-0.19.1"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Wheelhouse:
    return make_wheels(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkout(tmp_path_factory.mktemp("checkout"))


@contextlib.asynccontextmanager
async def opened(
    folder: Path, checkout: Path, wheels: Wheelhouse, *, on_change: Callable[[], None] = lambda: None
) -> AsyncIterator[Environments]:
    environments = Environments(folder, repository=checkout, on_change=on_change, environ=environ_for(wheels))
    await environments.open()
    try:
        yield environments
    finally:
        await environments.close()


@pytest.fixture
async def environments(tmp_path: Path, checkout: Path, wheels: Wheelhouse) -> AsyncIterator[Environments]:
    async with opened(tmp_path / "environments", checkout, wheels) as one:
        yield one


async def view_when(
    environments: Environments, identifier: str, is_so: Callable[[EnvironmentView], object]
) -> EnvironmentView:
    deadline = time.monotonic() + DEADLINE_S
    while True:
        view = environments.view(identifier)
        if view is not None and is_so(view):
            return view
        assert time.monotonic() < deadline, f"waited in vain; last seen: {view}"
        await asyncio.sleep(0.02)


async def test_installation_is_followed_from_its_first_step_to_its_flags(environments: Environments) -> None:
    identifier = await environments.install(INSTALLED)
    with pytest.raises(SetupError, match="being installed"):
        await environments.install(INSTALLED)
    with pytest.raises(SetupError, match="being installed"):
        await environments.remove(identifier)
    running = await view_when(environments, identifier, lambda view: view.install and view.install.step == 2)
    assert running.install is not None
    assert (running.install.state, running.install.title) == (InstallState.RUNNING, "install torch")
    assert running.install.elapsed_s > 0 and running.install.steps == 5
    assert running.engine_kinds == frozenset()

    ready = await view_when(environments, identifier, lambda view: view.probe is not None)

    assert (ready.environment.state, ready.install) == (EnvironmentState.READY, None)
    assert ready.engine_kinds == {EngineKind.CPU}
    assert [lack.key for lack in ready.missing] == [LackKey.CPU_BUILD]
    tools = environments.tools(EngineKind.CPU)
    assert (tools.environment, tools.vllm, tools.python) == (identifier, "0.19.1", ready.environment.python)
    assert "--dtype" in tools.flags
    log = environments.install_log(identifier)
    assert log is not None
    assert any("install torch" in line for line in log.last_lines(2000))
    with pytest.raises(SetupError, match="installed already"):
        await environments.install(INSTALLED)
    await environments.remove(identifier)
    assert environments.views == ()
    assert not ready.environment.folder.exists()


async def test_cancelled_installation_is_interrupted_and_resumes(environments: Environments, tmp_path: Path) -> None:
    identifier = await environments.install(INSTALLED)
    await view_when(environments, identifier, lambda view: view.install and view.install.step >= 2)
    started = time.monotonic()
    await environments.cancel(identifier)
    assert time.monotonic() - started < 10
    assert living_in(tmp_path / "environments") == []
    stopped = await view_when(
        environments, identifier, lambda view: view.install and view.install.state is InstallState.INTERRUPTED
    )
    assert stopped.engine_kinds == frozenset()
    with pytest.raises(SetupError, match="No installation"):
        await environments.cancel(identifier)
    assert await environments.resume(identifier) == identifier
    await view_when(environments, identifier, lambda view: view.environment.state is EnvironmentState.READY)


async def test_resumed_installation_asks_the_index_that_was_named_at_its_beginning(environments: Environments) -> None:
    mirror = "http://127.0.0.1:9/simple"
    identifier = await environments.install(INSTALLED, index_url=mirror)
    assert mirrors_of_installers() == [mirror]
    await environments.cancel(identifier)
    await view_when(
        environments, identifier, lambda view: view.install and view.install.state is InstallState.INTERRUPTED
    )
    await environments.resume(identifier)
    assert mirrors_of_installers() == [mirror]
    await environments.cancel(identifier)


def mirrors_of_installers() -> list[str | None]:
    children = [child for child in psutil.Process().children() if "backend.setup.install" in child.cmdline()]
    return [child.environ().get("VOLTA_INDEX_URL") for child in children]


async def test_installation_ends_with_its_panel_and_the_next_one_offers_to_resume_it(
    tmp_path: Path, checkout: Path, wheels: Wheelhouse
) -> None:
    folder = tmp_path / "environments"
    async with opened(folder, checkout, wheels) as first:
        identifier = await first.install(INSTALLED)
        await view_when(first, identifier, lambda view: view.install and view.install.step >= 2)
    assert living_in(folder) == []
    async with opened(folder, checkout, wheels) as second:
        view = second.view(identifier)
        assert view is not None and view.install is not None
        assert view.install.state is InstallState.INTERRUPTED
        assert view.install.title == "install torch"


async def test_kill_9_of_the_panel_ends_its_installer_and_pip(
    tmp_path: Path, checkout: Path, wheels: Wheelhouse
) -> None:
    folder = tmp_path / "environments"
    code = (
        "import asyncio\n"
        "from pathlib import Path\n"
        "from backend.environment.environments import Environments\n"
        "async def main():\n"
        f"    one = Environments(Path({str(folder)!r}), repository=Path({str(checkout)!r}), on_change=lambda: None)\n"
        "    await one.open()\n"
        f"    await one.install({INSTALLED!r})\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    panel = subprocess.Popen((sys.executable, "-c", code), cwd=checkout, env=environ_for(wheels))
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not list(folder.glob("*/venv/lib/*/site-packages/torch.py")):
            assert panel.poll() is None and time.monotonic() < deadline
            await asyncio.sleep(0.02)
        assert living_in(folder) != []
    finally:
        panel.kill()
        panel.wait(timeout=10)
    deadline = time.monotonic() + 10
    while living_in(folder):
        assert time.monotonic() < deadline, "the installer outlives its panel"
        await asyncio.sleep(0.02)
    async with opened(folder, checkout, wheels) as environments:
        (view,) = environments.views
        assert view.install is not None and view.install.state is InstallState.INTERRUPTED
        await environments.resume(view.environment.id)
        await view_when(
            environments, view.environment.id, lambda view: view.environment.state is EnvironmentState.READY
        )


async def test_installer_that_is_killed_is_said_to_have_failed(environments: Environments, tmp_path: Path) -> None:
    identifier = await environments.install(INSTALLED)
    await view_when(environments, identifier, lambda view: view.install and view.install.step >= 2)
    lock = tmp_path / "environments" / f"setup-{INSTALLED}.lock"
    os.kill(int(lock.read_text()), signal.SIGKILL)
    failed = await view_when(
        environments, identifier, lambda view: view.install and view.install.state is InstallState.FAILED
    )
    assert failed.install is not None and "exit code -9" in failed.install.reason


async def test_recipes_tell_what_they_take(environments: Environments) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not environments.recipes():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    offers = {offer.recipe.name: offer for offer in environments.recipes()}
    assert set(offers) == {"cpu", "v100", INSTALLED}
    assert offers["v100"].footprint.disk_bytes > 10e9
    assert all(offer.free_bytes > 0 and offer.ready is None for offer in offers.values())
    with pytest.raises(SetupError, match="no recipe"):
        await environments.install("h100")


async def test_somebodys_python_is_taken_when_its_engine_works(environments: Environments, tmp_path: Path) -> None:
    python = make_external_python(tmp_path / "conda", stub_engine())
    identifier = await environments.add_python(str(python.parent.parent), "the lab's own")
    view = environments.view(identifier)
    assert view is not None
    assert (view.environment.title, view.environment.python) == ("the lab's own", python)
    assert view.engine_kinds == {EngineKind.VOLTA, EngineKind.CUDA}
    assert environments.tools(EngineKind.VOLTA).python == python
    with pytest.raises(LaunchError, match="No cpu engine"):
        environments.tools(EngineKind.CPU)
    with pytest.raises(LaunchError, match="not a vLLM built for the CPU"):
        environments.tools(EngineKind.CPU, identifier)
    await environments.remove(identifier)
    assert python.exists()


@pytest.mark.parametrize(
    ("path", "reason"), [("bin/python", "not an absolute path"), ("/no/such/python", "is not a program")]
)
async def test_path_that_is_no_python_is_refused(environments: Environments, path: str, reason: str) -> None:
    with pytest.raises(SetupError, match=reason):
        await environments.add_python(path)
    assert environments.views == ()


async def test_python_without_vllm_is_refused_and_leaves_nothing(environments: Environments, tmp_path: Path) -> None:
    python = make_external_python(tmp_path / "bare", {})
    with pytest.raises(SetupError, match="vLLM is not installed"):
        await environments.add_python(str(python))
    assert environments.views == ()
    assert not list((tmp_path / "environments").glob("????????"))


async def test_image_is_taken_and_looked_at_again_when_it_was_built_anew(
    tmp_path: Path, checkout: Path, wheels: Wheelhouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker = FakeDocker(tmp_path / "docker").install()
    monkeypatch.setenv("PATH", docker.path())
    docker.add_image("lab/vllm:1", make_external_python(tmp_path / "inside", stub_engine()))
    async with opened(tmp_path / "environments", checkout, wheels) as first:
        identifier = await first.add_docker("lab/vllm:1")
        tools = first.tools(EngineKind.VOLTA)
        assert (tools.image, tools.python, tools.docker) == ("lab/vllm:1", None, docker.program)
    newer = make_external_python(tmp_path / "newer", {**stub_engine(), "torch.py": STUB_CPU_TORCH})
    docker.add_image("lab/vllm:1", newer, image_id="sha256:2222")
    async with opened(tmp_path / "environments", checkout, wheels) as second:
        await view_when(second, identifier, lambda view: view.engine_kinds == {EngineKind.CPU})


async def test_attached_server_is_followed_and_its_key_is_only_in_its_own_file(
    tmp_path: Path, checkout: Path, wheels: Wheelhouse
) -> None:
    folder = tmp_path / "environments"
    async with AttachedFake(key="s3cret").running() as fake:
        async with opened(folder, checkout, wheels) as first:
            identifier = await first.add_address(fake.url + "/v1", "lab", "s3cret")
            (server,) = first.attached
            assert (server.state, server.models[0].max_model_len) == (AttachedState.READY, 4096)
            with pytest.raises(LaunchError, match="runs already"):
                first.tools(EngineKind.CPU, identifier)
        async with opened(folder, checkout, wheels) as second:
            await view_when(second, identifier, lambda v: v.server and v.server.state is AttachedState.READY)
            key = second.attached_key(identifier)
            assert key is not None and key.get_secret_value() == "s3cret"
    record = (folder / identifier / "environment.json").read_text()
    assert "s3cret" not in record and json.loads(record)["address"] == fake.url
    assert stat.S_IMODE((folder / identifier / "key").stat().st_mode) == 0o600


async def test_key_that_cannot_be_read_keeps_no_panel_from_opening(
    tmp_path: Path, checkout: Path, wheels: Wheelhouse
) -> None:
    async with AttachedFake(key="s3cret").running() as fake:
        async with opened(tmp_path, checkout, wheels) as environments:
            identifier = await environments.add_address(fake.url, "Lab", "s3cret")
        (tmp_path / identifier / "key").write_bytes(b"\xff\xfe")
        async with opened(tmp_path, checkout, wheels) as environments:
            await environments.probe(identifier)
            view = environments.view(identifier)
            assert view is not None and view.server is not None
            assert view.server.reason == "It wants an API key."


async def test_what_was_not_looked_at_yet_is_and_an_old_record_still_loads(
    tmp_path: Path, checkout: Path, wheels: Wheelhouse
) -> None:
    environment = make_environment(tmp_path / "environments" / "oldd2345", stub_engine())
    record = environment.folder / "environment.json"
    old = {name: json.loads(record.read_text())[name] for name in ("recipe", "state", "ready_at")}
    record.write_text(json.dumps(old))
    async with opened(tmp_path / "environments", checkout, wheels) as environments:
        assert environments.view("oldd2345") is not None
        view = await view_when(environments, "oldd2345", lambda view: view.probe is not None)
    assert view.probe is not None and view.probe.dflash2 == "2.0"
    assert view.missing == ()


async def test_broken_environment_says_why_in_one_sentence(tmp_path: Path, checkout: Path, wheels: Wheelhouse) -> None:
    packages = {**stub_engine(), "torch.py": "raise ImportError('libcudnn.so.9: cannot open shared object file')"}
    make_environment(tmp_path / "environments" / "brok2345", packages)
    async with opened(tmp_path / "environments", checkout, wheels) as environments:
        view = await view_when(environments, "brok2345", lambda view: view.probe_error)
    assert "libcudnn.so.9" in view.probe_error and "\n" not in view.probe_error
    assert not view.probing


async def test_loop_is_never_held_up(tmp_path: Path, checkout: Path, wheels: Wheelhouse) -> None:
    for number in range(20):
        one = make_environment(tmp_path / "environments" / f"many23{number:02}", stub_engine(), recipe=f"r{number}")
        write_environment(EngineEnvironment(one.id, one.recipe, one.folder, EnvironmentState.INSTALLING))
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - before - 0.01)

    ticking = asyncio.create_task(tick())
    async with opened(tmp_path / "environments", checkout, wheels) as environments:
        assert len(environments.views) == 20
        await asyncio.sleep(1.0)
    ticking.cancel()
    assert longest < 0.5
