"""What of this machine would make the CPU engine slow or impossible, as sentences."""

from pathlib import Path

ENGINE_MEMORY_BYTES = 4_000_000_000  # the embedded model's processes hold 3.6 GB with a KV cache of 1 GB


def machine_warnings(root: Path = Path("/")) -> list[str]:
    """What to tell the person before a large download; nothing where all is well or cannot be read."""
    return [warning for warning in (_memory(root / "proc/meminfo"), _vector_units(root / "proc/cpuinfo")) if warning]


def _memory(meminfo: Path) -> str | None:
    for line in _lines(meminfo):
        name, _, value = line.partition(":")
        if name == "MemTotal" and value.split():
            total = int(value.split()[0]) * 1024
            if total < ENGINE_MEMORY_BYTES:
                return (
                    f"This machine has {total / 1e9:.1f} GB of memory; the CPU engine with its model takes about 4 GB."
                )
    return None


def _vector_units(cpuinfo: Path) -> str | None:
    for line in _lines(cpuinfo):
        name, _, value = line.partition(":")
        if name.strip() == "flags":  # x86 only; ARM calls them Features
            return None if "avx2" in value.split() else "This processor has no AVX2, which the CPU engine needs."
    return None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
