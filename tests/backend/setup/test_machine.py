"""What of a machine is worth a warning before a large download."""

from pathlib import Path

import pytest

from backend.setup.machine import machine_warnings


def put(root: Path, *, memory_kib: int, flags: str) -> Path:
    (root / "proc").mkdir()
    (root / "proc/meminfo").write_text(f"MemTotal:       {memory_kib} kB\nMemFree: 1 kB\n")
    (root / "proc/cpuinfo").write_text(f"processor\t: 0\nflags\t\t: fpu {flags}\n")
    return root


def test_ordinary_machine_gets_no_warning(tmp_path: Path) -> None:
    assert machine_warnings(put(tmp_path, memory_kib=16_000_000, flags="avx avx2")) == []


@pytest.mark.parametrize(
    ("memory_kib", "flags", "words"), [(2_000_000, "avx2", "2.0 GB of memory"), (16_000_000, "avx", "no AVX2")]
)
def test_what_the_engine_lacks_is_named(tmp_path: Path, memory_kib: int, flags: str, words: str) -> None:
    (warning,) = machine_warnings(put(tmp_path, memory_kib=memory_kib, flags=flags))
    assert words in warning


def test_machine_that_tells_nothing_gets_no_warning(tmp_path: Path) -> None:
    assert machine_warnings(tmp_path) == []
