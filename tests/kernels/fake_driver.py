"""Builds the CUDA driver of fake_cuda/cuda.c, which tests load in place of NVIDIA's."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).parent / "fake_cuda" / "cuda.c"
COMPILE_TIMEOUT_S = 60


def build_fake_driver(folder: Path) -> Path:
    """Compile libcuda.so.1 into `folder`. A missing compiler is a failure."""
    compiler = shutil.which("gcc")
    assert compiler is not None, "gcc is not on PATH: the tests of the driver binding need it (apt-get install gcc)"
    library = folder / "libcuda.so.1"
    command = [compiler, "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
    assert result.returncode == 0, result.stderr
    return library
