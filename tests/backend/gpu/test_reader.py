"""The reader process as the panel starts it, against the real nvidia-ml-py and a library in C."""

import ast
import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from backend.gpu import reader as gpu_reader
from backend.gpu.child import READER
from backend.gpu.snapshot import GpuSnapshot
from backend.reading import MissingReason
from tests.fakes.fakenvml import FakeMachine, build_library

IDENTITY = {"uuid", "bus_id", "index", "name", "taken_at"}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def machine(tmp_path: Path, library: Path) -> FakeMachine:
    return FakeMachine(tmp_path, library=library)


def run_reader(machine: FakeMachine, *arguments: str) -> list[dict[str, Any]]:
    """All lines of a reader whose stdin is closed: it ends after its first sample."""
    done = subprocess.run(
        (sys.executable, "-I", str(READER), *arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=dict(machine.environment),
        timeout=20,
        check=False,
    )
    assert done.stderr == b""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_probe_names_both_versions_and_counts_the_cards(machine: FakeMachine) -> None:
    machine.play(["count = 2", "driver = 535.129.03", "library = 12.535.161.07"])
    assert run_reader(machine, "probe") == [
        {"kind": "probe", "driver_version": "535.129.03", "library_version": "535.161.07", "count": 2}
    ]


def test_a_watch_names_the_card_and_then_reads_it(machine: FakeMachine) -> None:
    machine.play(
        [
            "count = 2",
            "1.core_temperature_c = 61",
            "1.memory_temperature_c = 72",
            "1.utilization_percent = 93",
            "1.memory_used_bytes = 12345678",
            "1.power_mw = 251500",
        ]
    )
    card, sample = run_reader(machine, "watch", "0000:03:00.0", "0.1")
    assert card == {
        "kind": "card",
        "uuid": "GPU-00000000-0000-4000-8000-000000000001",
        "bus_id": "0000:03:00.0",
        "index": 1,
        "name": "Tesla V100-SXM2-32GB",
    }
    assert sample["readings"] == {
        "memory_used_bytes": 12345678,
        "memory_total_bytes": 32 * 1024**3,
        "core_temperature_c": 61,
        "memory_temperature_c": 72,
        "utilization_percent": 93,
        "power_w": 251.5,
        "power_limit_w": 300.0,
        "process_memory_bytes": [],
    }


def test_the_processes_that_hold_a_card_are_read(machine: FakeMachine) -> None:
    machine.play(["0.processes = 4242:17179869184 77:1048576"])
    readings = run_reader(machine, "watch", "index:0", "0.1")[1]["readings"]
    assert readings["process_memory_bytes"] == [[4242, 16 * 1024**3], [77, 1024**2]]


def test_a_card_can_be_named_by_index(machine: FakeMachine) -> None:
    machine.play(["count = 2"])
    assert run_reader(machine, "watch", "index:1", "0.1")[0]["bus_id"] == "0000:03:00.0"


def test_a_wide_pci_domain_keeps_its_name(machine: FakeMachine) -> None:
    machine.play(["0.bus_id = 10001:04:00.0"])
    assert run_reader(machine, "watch", "index:0", "0.1")[0]["bus_id"] == "10001:04:00.0"


@pytest.mark.parametrize(
    ("code", "reason"), [(3, "unsupported"), (4, "denied"), (10, "timeout"), (999, "error"), (13, "unsupported")]
)
def test_one_sensor_that_fails_says_why_and_the_others_read(machine: FakeMachine, code: int, reason: str) -> None:
    machine.play([f"0.return.nvmlDeviceGetPowerUsage = {code}"])
    readings = run_reader(machine, "watch", "index:0", "0.1")[1]["readings"]
    assert readings["power_w"]["missing"] == reason
    assert readings["core_temperature_c"] == 36


def test_a_card_without_a_memory_sensor_says_unsupported(machine: FakeMachine) -> None:
    machine.play(["0.memory_temperature_code = 3"])
    readings = run_reader(machine, "watch", "index:0", "0.1")[1]["readings"]
    assert readings["memory_temperature_c"] == {"missing": "unsupported", "detail": "Not Supported"}


@pytest.mark.parametrize(
    ("scenario", "stage", "code", "detail"),
    [
        ("init = 4", "init", 4, "Insufficient Permissions"),
        ("init = 9", "init", 9, "Driver Not Loaded"),
        ("0.handle = 8", "handle", 8, "Insufficient External Power"),
        ("0.handle = 999", "handle", 999, "Unknown Error"),
        ("0.return.nvmlDeviceGetTemperature = 15", "read", 15, "GPU is lost"),
        ("0.return.nvmlDeviceGetTemperature = 16", "read", 16, "GPU requires restart"),
        ("0.return = 15", "handle", 15, "GPU is lost"),
    ],
)
def test_a_failure_for_good_ends_the_reader_with_its_stage(
    machine: FakeMachine, scenario: str, stage: str, code: int, detail: str
) -> None:
    machine.play([scenario])
    last = run_reader(machine, "watch", "index:0", "0.1")[-1]
    assert (last["kind"], last["stage"], last["code"], last["detail"]) == ("failed", stage, code, detail)


def test_a_version_mismatch_tells_the_version_of_the_library(machine: FakeMachine) -> None:
    machine.play(["init = 18", "library = 13.580.95.05"])
    (failed,) = run_reader(machine, "probe")
    assert (failed["code"], failed["library_version"]) == (18, "580.95.05")


def test_a_library_that_cannot_be_loaded_is_told_in_the_words_of_the_loader(
    machine: FakeMachine, tmp_path: Path
) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")
    (failed,) = run_reader(FakeMachine(tmp_path, library=tmp_path), "probe")
    assert (failed["stage"], failed["code"]) == ("init", 12)
    assert "libnvidia-ml.so.1" in failed["detail"]


def test_the_sensors_are_the_readings_of_a_snapshot() -> None:
    sensors = {name for names, _ in gpu_reader.SENSORS for name in names}
    assert sensors == {field.name for field in dataclasses.fields(GpuSnapshot)} - IDENTITY


def test_the_reasons_are_those_that_the_panel_knows() -> None:
    assert set(gpu_reader.MISSING_REASONS.values()) <= set(MissingReason)


def test_a_reader_imports_nothing_but_the_standard_library_and_nvidia_ml_py() -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(READER.read_text())):
        if isinstance(node, ast.Import):
            imported |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    assert imported - sys.stdlib_module_names == {"pynvml"}
