"""What /proc/cpuinfo says."""

from pathlib import Path

import pytest

from backend.fit.cpu_features import CpuFeatures, read_cpu_features


@pytest.mark.parametrize(
    ("flags", "features"),
    [
        ("fpu avx512_bf16 amx_tile", CpuFeatures(bfloat16=True, amx=True)),
        ("fpu avx512_bf16", CpuFeatures(bfloat16=True)),
        ("fpu avx2 amx_tiles_of_another_kind", CpuFeatures()),
    ],
)
def test_a_feature_is_one_whole_word_of_the_flags(tmp_path: Path, flags: str, features: CpuFeatures) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text(f"processor : 0\nflags : {flags}\n", encoding="utf-8")
    assert read_cpu_features(info) == features


def test_another_system_has_none(tmp_path: Path) -> None:
    assert read_cpu_features(tmp_path / "missing") == CpuFeatures()
