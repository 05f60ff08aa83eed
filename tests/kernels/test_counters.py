"""Launch and fallback counters, and the file that several processes share."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from dflash2 import counters
from dflash2.counters import Counters

PACKAGE_PARENT = Path(counters.__file__).parents[1]


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def entry(path: Path) -> dict[str, dict[str, int]]:
    """This process's entry in the file."""
    return json.loads(path.read_text())["processes"][str(os.getpid())]


def test_launches_and_fallbacks_are_counted_by_name(tmp_path: Path) -> None:
    counted = Counters(tmp_path / "counters.json")
    for _ in range(3):
        counted.count_launch("kv_write")
    counted.count_fallback("head dim 80 is not one of 64, 96")
    counted.flush()
    assert entry(tmp_path / "counters.json")["launches"] == {"kv_write": 3}
    assert entry(tmp_path / "counters.json")["fallbacks"] == {"head dim 80 is not one of 64, 96": 1}


def test_the_file_is_written_at_most_once_a_second(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "counters.json"
    counted = Counters(path, clock=clock)
    for _ in range(100):
        counted.count_launch("kv_write")
    assert entry(path)["launches"] == {"kv_write": 1}
    clock.now = 1.5
    counted.count_launch("kv_write")
    assert entry(path)["launches"] == {"kv_write": 101}


def test_without_a_path_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    counted = Counters(None)
    counted.count_launch("kv_write")
    counted.flush()
    assert counted.snapshot()["launches"] == {"kv_write": 1}
    assert list(tmp_path.iterdir()) == []


def test_processes_that_write_the_same_file_do_not_lose_each_other(tmp_path: Path) -> None:
    """Four processes count at once; each writes a last time at its exit."""
    code = (
        "from dflash2.counters import open_counters\n"
        "counted = open_counters()\n"
        "for _ in range(50): counted.count_launch('kv_write'); counted.flush()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE_PARENT), "DFLASH2_COUNTERS": str(tmp_path / "c.json")}
    children = [subprocess.Popen([sys.executable, "-c", code], env=environment) for _ in range(4)]
    assert [child.wait(timeout=60) for child in children] == [0, 0, 0, 0]
    entries = json.loads((tmp_path / "c.json").read_text())["processes"]
    assert {int(pid) for pid in entries} == {child.pid for child in children}
    assert [entry["launches"] for entry in entries.values()] == [{"kv_write": 50}] * 4


def test_a_file_that_cannot_be_written_is_logged_once_and_never_raises(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "occupied").write_text("")
    counted = Counters(tmp_path / "occupied" / "counters.json")
    with caplog.at_level(logging.WARNING):
        counted.flush()
        counted.flush()
        counted.count_launch("kv_write")
    assert len(caplog.records) == 1
    assert counted.snapshot()["launches"] == {"kv_write": 1}
