"""How fast weights can be read: a little of them is read, and within bounds."""

from pathlib import Path

import pytest

from backend.engine import disk_speed
from backend.engine.disk_speed import measure_disk_speed

MIB = 1024 * 1024


def weights(folder: Path, *sizes: int) -> Path:
    for index, size in enumerate(sizes):
        (folder / f"model-{index}.safetensors").write_bytes(b"x" * size)
    (folder / "config.json").write_text("{}")
    return folder


def test_size_and_speed_are_known_after_a_look(tmp_path: Path) -> None:
    speed = measure_disk_speed(weights(tmp_path, 3 * MIB, 5 * MIB))
    assert speed.model_bytes == 8 * MIB
    assert speed.bytes_per_s is not None and speed.bytes_per_s > 1e6


def test_no_more_than_the_budget_is_read_and_from_all_over_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[str, int]] = []
    original = disk_speed._read_piece

    def counted(path: Path, offset: int) -> int:
        read.append((path.name, offset))
        return original(path, offset)

    monkeypatch.setattr(disk_speed, "_read_piece", counted)
    measure_disk_speed(weights(tmp_path, 20 * MIB, 20 * MIB), most_bytes=8 * MIB)
    assert read == [
        ("model-0.safetensors", 0),
        ("model-0.safetensors", 10 * MIB),
        ("model-1.safetensors", 0),
        ("model-1.safetensors", 10 * MIB),
    ]


def test_time_is_bounded_too(tmp_path: Path) -> None:
    assert measure_disk_speed(weights(tmp_path, 4 * MIB), most_s=0.0).bytes_per_s is None


@pytest.mark.parametrize("sizes", [(), (1000,)])
def test_too_little_to_tell_is_none(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    assert measure_disk_speed(weights(tmp_path, *sizes)).bytes_per_s is None


def test_a_folder_that_is_not_there_is_none(tmp_path: Path) -> None:
    speed = measure_disk_speed(tmp_path / "nowhere")
    assert (speed.model_bytes, speed.bytes_per_s) == (0, None)
