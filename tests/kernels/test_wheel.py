"""The wheel as a user gets it: cubins inside, small, installed and imported where there is no torch and no GPU."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from dflash2.variants import VARIANTS

PROJECT = Path(__file__).parents[2] / "kernels"
SIZE_LIMIT_BYTES = 15 << 20
BUILD_TIMEOUT_S = 300
ELF_MACHINE_CUDA = 190
SM_70_FLAG = 70


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the project (a build leaves folders behind)."""
    folder = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("build", "images", "*.egg-info", "__pycache__")
    shutil.copytree(PROJECT, folder / "source", ignore=ignored)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    result = subprocess.run(
        [*pip, str(folder / "source")], capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
    )
    assert result.returncode == 0, result.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds nothing but the installed wheel."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), str(wheel)]
    subprocess.run(pip, check=True, timeout=BUILD_TIMEOUT_S)
    return folder


def run_alone(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python without site-packages (-S): the wheel and the standard library are all there is."""
    environment = {**os.environ, "PYTHONPATH": str(installed), "DFLASH2_CACHE": str(installed / "cache")}
    command = [sys.executable, "-S", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)


def test_the_wheel_holds_a_cubin_for_sm_70_and_ptx_of_every_kernel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for variant in VARIANTS:
            cubin = archive.read(f"dflash2/images/{variant.name}.sm_70.cubin")
            assert cubin[:4] == b"\x7fELF"
            assert int.from_bytes(cubin[18:20], "little") == ELF_MACHINE_CUDA
            assert cubin[48] == SM_70_FLAG, "the low byte of the ELF flags is the architecture"
            ptx = archive.read(f"dflash2/images/{variant.name}.compute_70.ptx")
            assert b".target sm_70" in ptx
            assert variant.entry_point.encode() in ptx


def test_the_wheel_is_smaller_than_15_mib_and_holds_the_sources_for_nvrtc(wheel: Path) -> None:
    assert wheel.stat().st_size < SIZE_LIMIT_BYTES
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sources = {f"dflash2/csrc/{path.name}" for path in (PROJECT / "dflash2" / "csrc").iterdir() if path.is_file()}
    assert sources
    assert sources <= names
    assert "dflash2/predict/sm_simulator.c" in names


def test_it_imports_without_torch_numpy_or_a_gpu(installed: Path) -> None:
    code = "import dflash2, sys; assert 'torch' not in sys.modules and 'numpy' not in sys.modules; print(dflash2.__file__)"
    result = run_alone(installed, "-c", code)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(str(installed))


def test_the_installed_doctor_prints_and_finds_its_cubins(installed: Path) -> None:
    result = run_alone(installed, "-m", "dflash2", "doctor", "--json")
    checks = {check["name"]: check for check in json.loads(result.stdout)}
    assert checks["cubins"]["verdict"] == "ok", checks["cubins"]
    assert f"{len(VARIANTS)} kernels for sm_70" in checks["cubins"]["detail"]
    assert checks["NVRTC"]["verdict"] != "missing", "with cubins there is no need for a compiler"


def test_without_its_packages_the_timing_model_says_which_and_the_bench_goes_on(installed: Path) -> None:
    predict = run_alone(installed, "-m", "dflash2", "predict")
    assert predict.returncode == 1
    assert "pip install './kernels[predict]'" in predict.stderr
    bench = run_alone(installed, "-m", "dflash2", "bench", "--op", "kv_write")
    assert bench.returncode == 0, bench.stderr
    assert "prediction: none: No module named 'numpy'" in bench.stdout


def test_a_lost_cubin_is_noticed(installed: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(installed, damaged)
    (damaged / "dflash2" / "images" / "kv_write.sm_70.cubin").unlink()
    checks = json.loads(run_alone(damaged, "-m", "dflash2", "doctor", "--json").stdout)
    (finding,) = [check for check in checks if check["name"] == "cubins"]
    assert finding["verdict"] == "failed"
    assert "kv_write" in finding["detail"]
