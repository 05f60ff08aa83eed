"""From a preset to what its launch asks for of memory."""

import math

from backend.fit.cpu_features import CpuFeatures
from backend.fit.element import GIB
from backend.fit.model_facts import ModelFacts
from backend.fit.wish import FitWish
from backend.launch.preset import Flag, Preset
from backend.launch.wishes import KV_BYTES_VERSION


def wish_of_preset(
    preset: Preset, *, version: str | None = None, draft: ModelFacts | None = None, cpu: CpuFeatures | None = None
) -> FitWish:
    """This preset's launch on a vLLM of this version. `draft`: the second model, that guesses.

    `cpu`: the machine's, for the CPU engine.
    """
    speculation = preset.speculation
    flags = {name.replace("_", "-"): value for name, value in preset.flags.items()}
    return FitWish(
        context=preset.context,
        sequences=preset.max_sequences,
        utilization=preset.memory_utilization,
        batched_tokens=preset.max_batched_tokens,
        dtype=preset.dtype,
        kv_dtype=preset.kv_cache_dtype,
        quantization=preset.quantization,
        gpus=max(1, preset.gpus),
        parallel=preset.parallel,
        eager=bool(preset.eager),
        prefix_caching=preset.prefix_caching,
        block_size=_whole(flags.get("block-size")),
        hybrid_manager=_hybrid_manager(flags),
        speculative_tokens=0 if speculation is None else speculation.tokens,
        uses_mtp=speculation is not None and speculation.method == "mtp",
        draft_bytes=0 if draft is None or draft.weights is None else draft.weights.stored_bytes,
        draft_layers=() if draft is None else draft.kv_layers,
        weights_offload_bytes=int((preset.cpu_offload_gib or 0) * GIB),
        kv_offload_bytes=int((preset.kv_offload_gib or 0) * GIB),
        kv_cache_bytes=_kv_cache_bytes(preset, flags, version),
        text_only=flags.get("language-model-only") is True,
        cpu=cpu or CpuFeatures(),
        engine=preset.engine,
        version=version,
    )


def _kv_cache_bytes(preset: Preset, flags: dict[str, Flag], version: str | None) -> int | None:
    """A size of its own: the CPU engine's, which older versions take in whole GiB only, or that of a flag."""
    named = _whole(flags.get("kv-cache-memory-bytes"))
    if named is not None:
        return named
    gib = preset.kv_cache_gib
    if gib is None:
        return None
    takes_bytes = version is None or _number(version) >= KV_BYTES_VERSION
    return int(gib * GIB) if takes_bytes else math.ceil(gib) * GIB


def _hybrid_manager(flags: dict[str, Flag]) -> bool | None:
    for name, on in (("disable-hybrid-kv-cache-manager", False), ("no-disable-hybrid-kv-cache-manager", True)):
        value = flags.get(name)
        if isinstance(value, bool):
            return on if value else not on
    return None


def _whole(value: Flag | None) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return value if isinstance(value, int) and value > 0 else None


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("+")[0].split(".")[:2] if part.isdecimal())
