"""The card an estimate is made for: the fullest of those that were chosen, or an empty one the preset was written for. Pure."""

from collections.abc import Sequence

from backend.fit.element import GIB
from backend.fit.learned_overhead import LearnedOverhead, overhead_key
from backend.fit.wish import CardMemory
from backend.gpu.snapshot import GpuSnapshot
from backend.launch.engine_tools import EngineTools
from backend.launch.preset import Preset
from backend.reading import Missing

VISIBLE_SHARE = 0.9915  # a V100 with 32 GiB shows about 31.7 to torch; the driver keeps the rest


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
