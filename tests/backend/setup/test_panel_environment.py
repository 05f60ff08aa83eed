"""PanelEnvironment: a real venv from wheels of our own, quick when whole, repaired when not."""

import io
import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from backend.errors import SetupError
from backend.setup.console import Console
from backend.setup.panel_environment import PanelEnvironment
from backend.setup.pip_access import PipAccess
from backend.setup.setup_lock import setup_lock
from tests.fakes.wheelhouse import Wheelhouse

CHECK = "import tinypanel"
PYTHON = Path(sys.executable)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Wheelhouse:
    house = Wheelhouse(tmp_path_factory.mktemp("wheels"))
    house.add("tinypanel", "1.0", {"tinypanel/__init__.py": "VERSION = '1.0'\n"})
    house.add("tinypanel", "1.1", {"tinypanel/__init__.py": "VERSION = '1.1'\n"})
    house.add("tinytest", "1.0", {"tinytest.py": "x = 1\n"})
    return house


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory, wheels: Wheelhouse) -> Path:
    """A repository with its panel environment installed, to copy from."""
    repository = tmp_path_factory.mktemp("pristine") / "repository"
    (repository / "requirements").mkdir(parents=True)
    (repository / "requirements.txt").write_text("tinypanel==1.0\n")
    (repository / "requirements/dev.txt").write_text("-r ../requirements.txt\ntinytest\n")
    install(PanelEnvironment(repository, PYTHON, import_check=CHECK), wheels)
    return repository


@pytest.fixture
def panel(pristine: Path, tmp_path: Path) -> PanelEnvironment:
    copy = tmp_path / "repository"
    shutil.copytree(pristine, copy, symlinks=True)
    return PanelEnvironment(copy, PYTHON, import_check=CHECK)


def install(panel: PanelEnvironment, wheels: Wheelhouse) -> None:
    """What Preparation does with it."""
    environ = PipAccess().environ({**os.environ, **wheels.environ()})
    with panel.lock():
        runner = panel.runner(Console(io.StringIO()), environ)
        panel.create(runner)
        panel.install(runner, PipAccess())


def package(panel: PanelEnvironment) -> Path:
    return next(panel.venv.glob("lib/python3.*/site-packages")) / "tinypanel"


def test_installed_environment_is_whole_and_found_so_quickly(panel: PanelEnvironment) -> None:
    assert panel.is_whole()
    started = time.monotonic()
    assert panel.is_whole()
    assert time.monotonic() - started < 2.0


def test_nothing_there_is_not_whole(tmp_path: Path) -> None:
    assert not PanelEnvironment(tmp_path, PYTHON).is_whole()


def test_changed_requirements_are_installed(panel: PanelEnvironment, wheels: Wheelhouse) -> None:
    (panel.repository / "requirements.txt").write_text("tinypanel==1.1\n")
    assert not panel.is_whole()
    install(panel, wheels)
    assert panel.is_whole()
    assert "1.1" in (package(panel) / "__init__.py").read_text()


def test_removed_package_is_installed_again(panel: PanelEnvironment, wheels: Wheelhouse) -> None:
    shutil.rmtree(package(panel))
    assert not panel.is_whole()
    install(panel, wheels)
    assert panel.is_whole()


def test_package_that_cannot_be_imported_is_installed_again(panel: PanelEnvironment, wheels: Wheelhouse) -> None:
    (package(panel) / "__init__.py").write_text("raise ImportError")
    assert not panel.is_whole()
    install(panel, wheels)
    assert panel.is_whole()


def test_environment_that_is_complete_but_cannot_import_is_made_anew(
    panel: PanelEnvironment, wheels: Wheelhouse
) -> None:
    # as after a change of the Python below it: every file is as recorded, and nothing loads
    (package(panel).parent / "spoilt.pth").write_text("import sys; sys.modules['tinypanel'] = None\n")
    assert not panel.is_whole()
    install(panel, wheels)
    assert panel.is_whole()
    assert not (package(panel).parent / "spoilt.pth").exists()


def test_environment_whose_interpreter_is_gone_is_made_anew(panel: PanelEnvironment, wheels: Wheelhouse) -> None:
    for name in ("python", "python3"):
        (panel.venv / "bin" / name).unlink()
    assert not panel.is_whole()
    install(panel, wheels)
    assert panel.is_whole()


def test_interrupted_installation_has_no_stamp_and_is_not_whole(panel: PanelEnvironment, wheels: Wheelhouse) -> None:
    (panel.repository / "requirements.txt").write_text("not-on-any-index\n")
    with pytest.raises(SetupError, match="not-on-any-index"):
        install(panel, wheels)
    (panel.repository / "requirements.txt").write_text("tinypanel==1.0\n")
    assert not panel.is_whole()


def test_folder_that_is_no_environment_is_left_alone(tmp_path: Path, wheels: Wheelhouse) -> None:
    panel = PanelEnvironment(tmp_path, PYTHON)
    precious = panel.venv / "thesis.tex"
    precious.parent.mkdir()
    precious.write_text("years of work")
    with pytest.raises(SetupError, match="is not a virtual environment"):
        install(panel, wheels)
    assert precious.read_text() == "years of work"


def test_environment_interrupted_at_its_very_start_is_made_anew(
    tmp_path: Path, panel: PanelEnvironment, wheels: Wheelhouse
) -> None:
    shutil.rmtree(panel.venv)
    (panel.venv / "bin").mkdir(parents=True)
    (panel.venv / "lib/python3.11/site-packages").mkdir(parents=True)
    install(panel, wheels)
    assert panel.is_whole()


def test_test_tools_are_asked_for_once_and_do_not_disturb_a_plain_run(
    panel: PanelEnvironment, wheels: Wheelhouse
) -> None:
    with_tools = PanelEnvironment(panel.repository, PYTHON, with_dev=True, import_check=CHECK)
    assert not with_tools.is_whole()
    install(with_tools, wheels)
    assert with_tools.is_whole()
    assert panel.is_whole()


def test_two_setups_do_not_work_on_it_at_once(panel: PanelEnvironment, wheels: Wheelhouse) -> None:
    with setup_lock(panel.venv), pytest.raises(SetupError, match="Another setup"):
        install(panel, wheels)
