"""`dflash2 doctor` as a process: it always prints, and says what is wrong; the card is a fake driver in C."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from dflash2 import doctor, tiny_attention
from dflash2.doctor import Check, Verdict, render, run_in_child
from dflash2.loader import ImageKind, ImageSource

from .fake_driver import build_fake_driver
from .host_kernels import HostKernel

PACKAGE_PARENT = Path(doctor.__file__).parents[1]
EVERY_CHECK = {"dflash2", "cubins", "cache", "torch", "NVRTC", "driver", "product"}
DOCTOR_TIMEOUT_S = 300


@pytest.fixture
def warm_cache(tmp_path: Path) -> Path:
    """A cache that holds the tiny attention's images: NVRTC cannot compile beside a driver that is a fake."""
    for kind in ImageKind:
        ImageSource(cache=tmp_path).find(tiny_attention.kernel(), kind)
    return tmp_path


@pytest.fixture(scope="module")
def driver_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_fake_driver(tmp_path_factory.mktemp("driver")).parent


def run_doctor(cache: Path, **environment: str) -> tuple[int, dict[str, Check]]:
    """Exit status and checks by name of `dflash2 doctor --json` in a process of its own."""
    variables = {**os.environ, "PYTHONPATH": str(PACKAGE_PARENT), "DFLASH2_CACHE": str(cache), **environment}
    command = [sys.executable, "-m", "dflash2", "doctor", "--json"]
    result = subprocess.run(
        command, capture_output=True, text=True, env=variables, timeout=DOCTOR_TIMEOUT_S, check=False
    )
    assert result.stderr == ""
    rows = [Check(**{**row, "verdict": Verdict(row["verdict"])}) for row in json.loads(result.stdout)]
    return result.returncode, {check.name: check for check in rows}


def test_without_a_driver_every_check_is_printed_and_the_fix_named(tmp_path: Path) -> None:
    status, checks = run_doctor(tmp_path, LD_LIBRARY_PATH=str(tmp_path))
    assert set(checks) >= EVERY_CHECK
    assert status == 1
    assert checks["NVRTC"].verdict is Verdict.OK
    assert checks["driver"].verdict is Verdict.MISSING
    assert "R580" in checks["driver"].hint
    assert checks["product"] == Check("product", Verdict.MISSING, "no card to compute on")


def test_on_a_volta_card_a_real_product_is_computed_and_right(
    driver_folder: Path, host_kernel: Callable[[str], HostKernel], warm_cache: Path
) -> None:
    kernel = host_kernel(tiny_attention.kernel().name)
    _, checks = run_doctor(warm_cache, LD_LIBRARY_PATH=str(driver_folder), FAKE_CUDA_KERNEL=kernel.library._name)
    assert checks["card"].verdict is Verdict.OK
    assert "7.0, 80 SMs" in checks["card"].detail
    assert checks["product"].verdict is Verdict.OK, checks["product"]


def test_a_card_that_computes_nothing_fails_the_product(driver_folder: Path, warm_cache: Path) -> None:
    _, checks = run_doctor(warm_cache, LD_LIBRARY_PATH=str(driver_folder))
    assert checks["product"].verdict is Verdict.FAILED
    assert "wrong answers" in checks["product"].hint


def test_an_error_above_the_kernels_own_tolerance_fails_the_product() -> None:
    assert doctor.judge_product(1.9e-3, "card").verdict is Verdict.OK
    assert doctor.judge_product(2.1e-3, "card").verdict is Verdict.FAILED


def test_another_card_is_marked_as_no_v100(driver_folder: Path, tmp_path: Path) -> None:
    _, checks = run_doctor(tmp_path, LD_LIBRARY_PATH=str(driver_folder), FAKE_CUDA_CAPABILITY="90")
    assert checks["card"].verdict is Verdict.WARNING


def test_a_driver_that_does_not_start_is_reported_in_its_own_words(driver_folder: Path, tmp_path: Path) -> None:
    _, checks = run_doctor(tmp_path, LD_LIBRARY_PATH=str(driver_folder), FAKE_CUDA_INIT="999")
    assert "cuInit failed" in checks["driver"].detail


def test_a_cache_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("")
    _, checks = run_doctor(occupied)
    assert checks["cache"].verdict is Verdict.FAILED
    assert "DFLASH2_CACHE" in checks["cache"].hint


def test_a_probe_that_dies_by_a_signal_is_a_finding() -> None:
    (check,) = run_in_child("torch", ("sh", "-c", "kill -SEGV $$"))
    assert check.verdict is Verdict.FAILED
    assert "signal 11" in check.detail


def test_a_probe_that_hangs_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PROBE_TIMEOUT_S", 0.2)
    (check,) = run_in_child("driver", ("sleep", "60"))
    assert "did not answer within 0.2 s" in check.detail


def test_a_probe_that_answers_nonsense_is_a_finding() -> None:
    (check,) = run_in_child("torch", ("echo", "hello"))
    assert check.verdict is Verdict.FAILED
    assert "hello" in check.detail


def test_the_report_puts_the_fix_below_its_line() -> None:
    text = render([Check("torch", Verdict.MISSING, "not installed", "install it")])
    assert text.splitlines()[0].split() == ["missing", "torch", "not", "installed"]
    assert text.splitlines()[1].strip() == "-> install it"


def test_the_tiny_attention_s_answer_is_that_of_its_definition() -> None:
    """With equal keys the output is the mean of the visible values."""
    values = [[float(row)] * tiny_attention.HEAD_DIM for row in range(3)]
    same = [[1.0] * tiny_attention.HEAD_DIM] * 3
    rows = tiny_attention.attention(same, same, values)
    assert [row[0] for row in rows] == pytest.approx([0.0, 0.5, 1.0])
