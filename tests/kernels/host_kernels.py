"""Runs kernel variants on the CPU: their own CUDA source, compiled by g++ against host_shim/cuda_on_cpu.h."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from dflash2.arguments import DecodeArguments, KvWriteArguments, MergeArguments, PrefillArguments
from dflash2.variants import SOURCE_FOLDER, VARIANTS, KernelFamily, KernelVariant

SHIM_FOLDER = Path(__file__).parent / "host_shim"
COMPILE_TIMEOUT_S = 120
ARGUMENT_TYPES: dict[KernelFamily, type[ctypes.Structure]] = {
    KernelFamily.PREFILL: PrefillArguments,
    KernelFamily.DECODE: DecodeArguments,
    KernelFamily.MERGE: MergeArguments,
    KernelFamily.KV_WRITE: KvWriteArguments,
}
OUTCOMES = {1: "threads wait for each other forever", 2: "it wrote past its shared memory"}

Half = npt.NDArray[np.float16]
Grid = tuple[int, int, int]


def address(array: npt.NDArray[np.generic]) -> int:
    """Address of an array's first element, as a kernel takes it."""
    return array.ctypes.data


def variant_named(name: str) -> KernelVariant:
    """The variant of that name."""
    return next(variant for variant in VARIANTS if variant.name == name)


@dataclass(frozen=True)
class HostKernel:
    """A kernel variant compiled for the CPU."""

    variant: KernelVariant
    library: ctypes.CDLL

    def run(self, grid: Grid, arguments: ctypes.Structure, seed: int = 1) -> None:
        """Run the grid with threads in the random order of `seed`; fails on a deadlock or a shared-memory overrun."""
        shared = ctypes.c_size_t(self.variant.shared_memory_bytes)
        outcome = self.library.run(ctypes.byref(arguments), *grid, self.variant.threads, shared, seed)
        assert outcome == 0, f"{self.variant.name}: {OUTCOMES[outcome]}"


def compile_for_host(variant: KernelVariant, folder: Path) -> HostKernel:
    """Compile a variant into a shared library in `folder`. A missing g++ is a failure."""
    compiler = shutil.which("g++")
    assert compiler is not None, "g++ is not on PATH: the host tests need it (apt-get install g++)"
    library = folder / f"{variant.name}.so"
    if not library.exists():
        structure = ARGUMENT_TYPES[variant.family].__name__
        command = [compiler, "-O2", "-std=c++17", "-march=x86-64-v3", "-shared", "-fPIC", "-Wall", "-Werror"]
        command += ["-Wno-unknown-pragmas", f"-I{SOURCE_FOLDER}", f"-I{SHIM_FOLDER}", "-DDFLASH2_HOST_SHIM"]
        command += [f'-DSOURCE="{variant.source}"', f"-DARGUMENTS={structure}", *(f"-D{d}" for d in variant.defines)]
        command += [str(SHIM_FOLDER / "launch.cpp"), "-o", str(library)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
        assert result.returncode == 0, f"g++ could not compile {variant.name}:\n{result.stderr}"
    loaded = ctypes.CDLL(str(library))
    loaded.argument_bytes.restype = ctypes.c_size_t
    return HostKernel(variant, loaded)
