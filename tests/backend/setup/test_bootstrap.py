"""The first step of setup: on any Python 3 it must at least be able to say what is missing."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from backend.setup.bootstrap import FoundPython, advice, ask, candidates

ROOT = Path(__file__).parents[3]
BOOTSTRAP = ROOT / "backend/setup/bootstrap.py"

# Runs bootstrap as an older Python would see it: only the version number is another one.
OLD_PYTHON = """
import runpy, sys
sys.version_info = (3, 8, 10, "final", 0)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the repository's backend, with no environment of its own."""
    folder = tmp_path / "checkout"
    shutil.copytree(ROOT / "backend", folder / "backend", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def put_python(folder: Path, name: str, *, version: str, has_venv: bool = True) -> Path:
    """A stand-in that answers like a Python of this version, and otherwise prints how it was called."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = -c ]; then echo "{version.replace(".", " ")} {int(has_venv)}"; '
        f'else echo "python {version} $*"; fi\n'
    )
    path.chmod(0o755)
    return path


def run_old(checkout: Path, *arguments: str, path: Path) -> "subprocess.CompletedProcess[str]":
    environ = {"PATH": str(path), "HOME": str(path)}
    argv = (sys.executable, "-c", OLD_PYTHON, str(checkout / "backend/setup/bootstrap.py"), *arguments)
    return subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60, check=False)


def test_file_is_read_by_python_3_6() -> None:
    ast.parse(BOOTSTRAP.read_text(encoding="utf-8"), feature_version=(3, 6))


def test_it_imports_the_standard_library_only_until_the_version_is_known() -> None:
    tree = ast.parse(BOOTSTRAP.read_text(encoding="utf-8"))
    names = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert names <= {"os", "subprocess", "sys", "pathlib", "typing"}


def test_old_python_hands_over_to_the_best_newer_one_on_path(checkout: Path, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    for name, version in (("python3.11", "3.11"), ("python3.12", "3.12"), ("python3.9", "3.9")):
        put_python(folder, name, version=version)
    done = run_old(checkout, "run", "--yes", "--", "--port", "7000", path=folder)
    assert f"This is Python 3.8; going on with {folder}/python3.12 (3.12)" in done.stderr
    assert done.stdout == f"python 3.12 {checkout}/backend/setup/bootstrap.py run --yes -- --port 7000\n"


def test_empty_shim_of_a_version_manager_is_passed_over(checkout: Path, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    put_python(folder, "python3.12", version="3.12")
    shim = folder / "python3.13"
    shim.write_text("#!/bin/sh\necho 'python3.13: command not found' >&2\nexit 127\n")
    shim.chmod(0o755)
    assert "python3.12 (3.12)" in run_old(checkout, "run", path=folder).stderr


def test_python_without_venv_is_passed_over_for_one_with_it(checkout: Path, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    put_python(folder, "python3.13", version="3.13", has_venv=False)
    put_python(folder, "python3.11", version="3.11")
    assert "python3.11 (3.11)" in run_old(checkout, "run", path=folder).stderr


def test_two_pythons_do_not_hand_over_for_ever(checkout: Path, tmp_path: Path) -> None:
    liar = tmp_path / "bin/python3.12"
    liar.parent.mkdir()
    liar.write_text(f'#!/bin/sh\nif [ "$1" = -c ]; then echo "3 12 1"; else exec {sys.executable} -c "$OLD" "$@"; fi\n')
    liar.chmod(0o755)
    environ = {"PATH": str(liar.parent), "HOME": str(tmp_path), "OLD": OLD_PYTHON}
    argv = (sys.executable, "-c", OLD_PYTHON, str(checkout / "backend/setup/bootstrap.py"), "run")
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.count("going on with") == 1


def test_message_names_what_was_found_and_how_to_get_a_newer_one() -> None:
    old = FoundPython("/usr/bin/python3", (3, 8), has_venv=True)
    text = advice(old, [FoundPython("/opt/python3.10", (3, 10), has_venv=True)])
    assert "/usr/bin/python3  is Python 3.8" in text
    assert "/opt/python3.10  is Python 3.10" in text
    for way in ("apt", "deadsnakes", "conda create", "uv python install"):
        assert way in text
    assert "http" not in text


def test_message_for_a_python_without_venv_names_debians_package() -> None:
    text = advice(FoundPython("/usr/bin/python3", (3, 11), has_venv=False), [])
    assert "sudo apt install python3.11-venv" in text


def test_panels_own_python_is_asked_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = put_python(tmp_path / "checkout", "unused", version="3.12")
    (tmp_path / "checkout/.venv/bin").mkdir(parents=True)
    own.rename(tmp_path / "checkout/.venv/bin/python")
    put_python(tmp_path / "bin", "python3.13", version="3.13")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    found = candidates(tmp_path / "checkout")
    assert found[:2] == [str(tmp_path / "checkout/.venv/bin/python"), str(tmp_path / "bin/python3.13")]


def test_real_python_answers_for_itself() -> None:
    found = ask(sys.executable)
    assert found is not None
    assert found.version == sys.version_info[:2]


@pytest.mark.parametrize("script", ["exit 1", "echo nonsense", "echo 3 12", "kill -9 $$"])
def test_program_that_is_no_python_is_nothing(tmp_path: Path, script: str) -> None:
    path = tmp_path / "python3"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    assert ask(str(path)) is None


def test_new_enough_python_goes_on_at_once(checkout: Path, tmp_path: Path) -> None:
    environ = {**os.environ, "VOLTA_HOME": str(tmp_path / "home")}
    argv = (sys.executable, str(checkout / "backend/setup/bootstrap.py"), "status")
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"{checkout}/.venv is not whole" in done.stdout
    assert not (checkout / ".venv").exists(), "a question must not change anything"
