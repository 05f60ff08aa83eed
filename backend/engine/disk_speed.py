"""How fast the weights of a model can be read here: measured on a few pieces of its own files, so that caches count."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
PIECE_BYTES = 2 * 1024 * 1024
MOST_BYTES = 32 * 1024 * 1024
MOST_S = 5.0
LEAST_BYTES = 256 * 1024  # less tells nothing


@dataclass(frozen=True)
class DiskSpeed:
    """What a look at a model's files showed."""

    model_bytes: int  # of all weight files
    bytes_per_s: float | None  # None when too little could be read


def measure_disk_speed(model: Path, *, most_bytes: int = MOST_BYTES, most_s: float = MOST_S) -> DiskSpeed:
    """Read pieces spread over the weight files, at most `most_bytes` and about `most_s` seconds. Blocks that long.

    Weights that lie in the page cache read fast here, and will when the engine loads them.
    """
    files = _weight_files(model)
    read_bytes = 0
    began = time.perf_counter()
    for path, offset in _pieces(files, count=max(1, most_bytes // PIECE_BYTES)):
        if time.perf_counter() - began >= most_s or read_bytes >= most_bytes:
            break
        read_bytes += _read_piece(path, offset)
    took_s = max(time.perf_counter() - began, 1e-6)
    speed = read_bytes / took_s if read_bytes >= LEAST_BYTES else None
    return DiskSpeed(model_bytes=sum(size for _, size in files), bytes_per_s=speed)


def _weight_files(model: Path) -> list[tuple[Path, int]]:
    """Path and size of each; a file that cannot be looked at is left out."""
    paths = sorted(model.iterdir()) if model.is_dir() else [model]
    found = []
    for path in paths:
        if path.suffix in WEIGHT_SUFFIXES:
            try:
                found.append((path, path.stat().st_size))
            except OSError:
                continue
    return found


def _pieces(files: Sequence[tuple[Path, int]], *, count: int) -> Iterator[tuple[Path, int]]:
    """`count` places at equal distances over all files as if they were one."""
    total = sum(size for _, size in files)
    for index in range(count):
        place = total * index // count
        for path, size in files:
            if place < size:
                yield path, place
                break
            place -= size


def _read_piece(path: Path, offset: int) -> int:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead: it would be timed and not counted
        return len(os.pread(descriptor, PIECE_BYTES, offset))
    except OSError:
        return 0
    finally:
        os.close(descriptor)
