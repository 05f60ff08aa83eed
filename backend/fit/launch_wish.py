"""From a preset, its engine and a card to what the estimate asks for. Pure."""

from collections.abc import Sequence

from backend.fit.learned_overhead import LearnedOverhead, overhead_key
from backend.fit.wish import CardMemory, FitWish
from backend.gpu.snapshot import GpuSnapshot
from backend.launch.engine_kind import EngineKind
from backend.launch.engine_tools import EngineTools
from backend.launch.preset import Preset
from backend.reading import Missing

GIB = 1024**3
VISIBLE_SHARE = 0.9915  # a V100 with 32 GiB shows about 31.7 to torch; the driver keeps the rest
TEXT_ONLY_FLAG = "language-model-only"


def wish_of(preset: Preset, tools: EngineTools) -> FitWish:
    """What this launch asks of memory. `preset` is the adjusted one."""
    guess = preset.speculation
    is_cpu = preset.engine is EngineKind.CPU
    return FitWish(
        context=preset.context,
        sequences=preset.max_sequences,
        utilization=preset.memory_utilization,
        batched_tokens=preset.max_batched_tokens,
        dtype=preset.dtype,
        kv_dtype=preset.kv_cache_dtype,
        quantization=None if preset.quantization == "none" else preset.quantization,
        gpus=max(1, preset.gpus),
        parallel=preset.parallel,
        eager=bool(preset.eager),
        prefix_caching=preset.prefix_caching,
        block_size=_whole_flag(preset, "block-size"),
        speculative_tokens=guess.tokens if guess else 0,
        uses_mtp=guess is not None and guess.method == "mtp",
        weights_offload_bytes=int((preset.cpu_offload_gib or 0) * GIB),
        kv_offload_bytes=int((preset.kv_offload_gib or 0) * GIB),
        kv_cache_bytes=int(preset.kv_cache_gib * GIB) if is_cpu and preset.kv_cache_gib is not None else None,
        text_only=preset.flags.get(TEXT_ONLY_FLAG) is True,
        engine=preset.engine,
        version=tools.vllm,
    )


def fullest_card(cards: Sequence[GpuSnapshot], learned: LearnedOverhead) -> CardMemory | None:
    """The chosen card with least room; None where none tells its memory."""
    memories = []
    for card in cards:
        total, used = card.memory_total_bytes, card.memory_used_bytes
        if not isinstance(total, Missing) and not isinstance(used, Missing):
            memories.append(CardMemory(int(total * VISIBLE_SHARE), used, learned))
    return min(memories, key=lambda one: one.total_bytes - one.used_by_others_bytes, default=None)


def assumed_card(preset: Preset, learned: LearnedOverhead) -> CardMemory | None:
    """An empty card of the kind the preset was written for; None where it names none."""
    if preset.card is None:
        return None
    return CardMemory(int(preset.card.memory_gib * GIB * VISIBLE_SHARE), 0, learned)


def key_of(preset: Preset, tools: EngineTools, card_name: str) -> str:
    """What a learned overhead of this launch is kept under."""
    return overhead_key(
        card=card_name,
        engine=preset.engine.value,
        version=tools.vllm,
        gpus=max(1, preset.gpus),
        parallel=preset.parallel,
    )


def _whole_flag(preset: Preset, name: str) -> int | None:
    value = preset.flags.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
