"""The machine: main memory for loading and for what is moved there, and disks."""

import math
from collections.abc import Iterator

from backend.failure.failure import Fix, FixKind
from backend.fit.element import GIB
from backend.launch.preset import Preset
from backend.preflight.finding import Finding, Severity
from backend.preflight.situation import Situation
from backend.preflight.target import gib, is_written_for_cpu, known, kv_step_gib

FULL_DISK_BYTES = 64 * 1024**2  # an engine cannot write its log and its compiled kernels
SMALL_DISK_BYTES = 2 * GIB
WORKER_BYTES = 2 * GIB  # of main memory that one process of an engine takes with torch and CUDA; an estimate
SAFE_SHARE = 0.9  # of the free memory that a smaller size may take


def disk_full(situation: Situation) -> Iterator[Finding]:
    """The disk of the state folder takes logs and compiled kernels."""
    free = known(situation.host.disk_free_bytes)
    if free is None:
        yield Finding("disk_unknown", Severity.HINT)
    elif free < FULL_DISK_BYTES:
        yield Finding("disk_full", Severity.ERROR, {"free": gib(free)})
    elif free < SMALL_DISK_BYTES:
        yield Finding("disk_small", Severity.WARNING, {"free": gib(free)})


def memory_unknown(situation: Situation) -> Iterator[Finding]:
    """How much main memory is free cannot be read."""
    if known(situation.host.memory_available_bytes) is None:
        yield Finding("memory_unknown", Severity.HINT)


def memory_of_cpu_engine(situation: Situation) -> Iterator[Finding]:
    """The CPU engine keeps weights and KV cache in main memory."""
    available = known(situation.host.memory_available_bytes)
    if not is_written_for_cpu(situation) or available is None:
        return
    weights, kv = weights_in_memory(situation), kv_cache_bytes(situation)
    if weights + kv <= available:
        return
    values = {
        "weights": gib(weights),
        "kv": gib(kv),
        "needed": gib(weights + kv),
        "available": gib(available),
        "where": _where(situation),
    }
    yield Finding(
        "memory_of_cpu_engine", Severity.ERROR, values, _smaller_kv(available - weights, situation), "kv_cache_gib"
    )


def _smaller_kv(room: int, situation: Situation) -> tuple[Fix, ...]:
    step = kv_step_gib(situation)
    smaller = math.floor(room * SAFE_SHARE / GIB / step) * step
    return (Fix(FixKind.KV_CACHE_GIB, f"{smaller:g}"),) if smaller >= step else ()


def weights_in_memory(situation: Situation) -> int:
    """Bytes of the weights after loading, as far as they are known; else as they lie on the disk; else 0."""
    if situation.estimate is not None:
        return situation.estimate.weights_bytes
    return situation.model.weight_bytes or 0


def kv_cache_bytes(situation: Situation) -> int:
    """The size that the CPU engine's KV cache will have."""
    step = kv_step_gib(situation)
    asked = situation.preset.kv_cache_gib or 0
    return math.ceil(asked) * GIB if step == 1 else int(asked * GIB)


def memory_for_loading(situation: Situation) -> Iterator[Finding]:
    """Each worker of an engine on cards takes main memory too, before a byte is on a card."""
    available, total = known(situation.host.memory_available_bytes), known(situation.host.memory_total_bytes)
    if is_written_for_cpu(situation) or available is None:
        return
    needed = WORKER_BYTES * max(1, situation.preset.gpus)
    if needed <= available:
        return
    values = {"needed": gib(needed), "available": gib(available), "where": _where(situation)}
    severity = Severity.ERROR if total is not None and total < needed // 2 else Severity.WARNING
    yield Finding("memory_for_loading", severity, values)


def offload_memory(situation: Situation) -> Iterator[Finding]:
    """Weights and KV cache that are moved to main memory need it, pinned."""
    available = known(situation.host.memory_available_bytes)
    wanted = offload_bytes(situation.preset)
    if is_written_for_cpu(situation) or not wanted or available is None or wanted <= available:
        return
    values = {"needed": gib(wanted), "available": gib(available), "where": _where(situation)}
    preset = situation.preset
    field = "cpu_offload_gib" if preset.cpu_offload_gib else "kv_offload_gib"
    yield Finding("offload_memory", Severity.ERROR, values, _less_offload(preset, available), field)


def offload_bytes(preset: Preset) -> int:
    """Main memory that offloading takes, all cards together."""
    weights = (preset.cpu_offload_gib or 0) * max(1, preset.gpus)
    return int((weights + (preset.kv_offload_gib or 0)) * GIB)


def _less_offload(preset: Preset, available: int) -> tuple[Fix, ...]:
    if not preset.kv_offload_gib:
        return ()
    weights = int((preset.cpu_offload_gib or 0) * max(1, preset.gpus) * GIB)
    room = math.floor((available - weights) * SAFE_SHARE / GIB)
    if room >= 1:
        return (Fix(FixKind.KV_OFFLOAD_GIB, str(room)),)
    return (Fix(FixKind.DROP_FLAG, "kv-offloading-size"),)


def offload_disk(situation: Situation) -> Iterator[Finding]:
    """KV cache on a disk: it needs the room, and a hard disk is slower than computing it anew."""
    disk = situation.host.offload_disk
    if disk is None:
        return
    free = known(disk.free_bytes)
    if free is None:
        yield Finding("offload_disk_unknown", Severity.HINT, {"path": disk.path[:120]}, field="env")
    elif disk.wanted_bytes is not None and disk.wanted_bytes > free:
        values = {"path": disk.path[:120], "wanted": gib(disk.wanted_bytes), "free": gib(free)}
        yield Finding("offload_disk_full", Severity.ERROR, values, field="env")
    if disk.is_rotating:
        yield Finding("offload_disk_slow", Severity.WARNING, {"path": disk.path[:120]}, field="env")


def offload_without_reuse(situation: Situation) -> Iterator[Finding]:
    """KV cache in main memory is looked up by prefix: without prefix caching it is never used."""
    if situation.preset.kv_offload_gib and situation.preset.prefix_caching is False:
        fixes = (Fix(FixKind.PREFIX_CACHING, "true"), Fix(FixKind.DROP_FLAG, "kv-offloading-size"))
        yield Finding("offload_without_reuse", Severity.WARNING, {}, fixes, "kv_offload_gib")


def weights_offload_is_slow(situation: Situation) -> Iterator[Finding]:
    """Weights in main memory cross the bus at every step."""
    if situation.preset.cpu_offload_gib:
        values = {"size": f"{situation.preset.cpu_offload_gib:g} GiB"}
        fixes = (Fix(FixKind.DROP_FLAG, "cpu-offload-gb"),)
        yield Finding("weights_offload_is_slow", Severity.HINT, values, fixes, "cpu_offload_gib")


def _where(situation: Situation) -> str:
    return "limit" if situation.host.is_limited else "machine"


RULES = (
    disk_full,
    memory_unknown,
    memory_of_cpu_engine,
    memory_for_loading,
    offload_memory,
    offload_disk,
    offload_without_reuse,
    weights_offload_is_slow,
)
