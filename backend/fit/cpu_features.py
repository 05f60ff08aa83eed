"""What a CPU can calculate in, as far as its vLLM then lays out the KV cache differently."""

from dataclasses import dataclass
from pathlib import Path

CPU_INFO = Path("/proc/cpuinfo")
_MOST_BYTES = 256 * 1024


@dataclass(frozen=True)
class CpuFeatures:
    """False: it has none, or nobody looked."""

    bfloat16: bool = False  # AVX512-BF16: recurrent matrices are kept in float32
    amx: bool = False  # tiles: MLA takes blocks of 128 tokens instead of 16


def read_cpu_features(cpu_info: Path = CPU_INFO) -> CpuFeatures:
    """This machine's, from what the kernel says. A small read; another system than Linux has none of them."""
    try:
        with cpu_info.open(encoding="utf-8", errors="replace") as file:
            words = set(file.read(_MOST_BYTES).split())
    except OSError:
        return CpuFeatures()
    return CpuFeatures(bfloat16="avx512_bf16" in words, amx="amx_tile" in words)
