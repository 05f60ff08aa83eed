"""Waits until the memory that an ended engine held of its cards is free: a start too early finds them full."""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

from backend.engine.memory import CardGauge, CardUse
from backend.engine.run import EngineRun
from backend.launch.engine_kind import EngineKind
from backend.launch.plan import LaunchSpec
from backend.reading import Missing

RELEASE_DEADLINE_S = 60.0
POLL_S = 0.25
SLACK_BYTES = 256 * 1024**2  # the driver's own use of a card comes and goes
SETTLED_LOOKS = 3  # readings without a fall, where the driver does not tell who holds what

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HeldMemory:
    """What a run held of one card, and what the card held altogether, before the run was ended."""

    used_bytes: int
    own_bytes: int | None  # None: not told, or its processes are not known to the driver by our numbers
    others_bytes: int = 0


def held_memory(cards: tuple[CardUse, ...], pids: frozenset[int]) -> Mapping[str, HeldMemory]:
    """By card."""
    return {card.uuid: _held(card, pids) for card in cards}


def held_by_run(run: EngineRun, spec: LaunchSpec, cards: tuple[CardUse, ...]) -> Mapping[str, HeldMemory]:
    """What a living run holds of the cards it was given; nothing of an engine for CPUs. Walks /proc where there are cards."""
    own = () if spec.kind is EngineKind.CPU else tuple(c for c in cards if not spec.gpus or c.uuid in spec.gpus)
    return held_memory(own, frozenset(member.pid for member in run.members())) if own else {}


def is_released(held: HeldMemory, looks: tuple[CardUse, ...]) -> bool:
    """Whether one card is as free as it can be. `looks` are its readings since the processes ended, oldest first."""
    if not looks:
        return False
    now = looks[-1]
    if held.own_bytes is None:
        recent = [look.used_bytes for look in looks[-SETTLED_LOOKS:]]
        return len(recent) == SETTLED_LOOKS and max(recent) - recent[-1] <= SLACK_BYTES
    others = sum(now.by_process.values()) if not isinstance(now.by_process, Missing) else held.others_bytes
    expected = held.used_bytes - held.own_bytes + max(0, others - held.others_bytes)
    return now.used_bytes <= expected + SLACK_BYTES


async def until_released(gauge: CardGauge, held: Mapping[str, HeldMemory], *, deadline_s: float) -> bool:
    """Wait for every card that can still be read; False when the deadline passed first."""
    ended_at, deadline = time.time(), time.monotonic() + deadline_s
    looks: dict[str, tuple[CardUse, ...]] = dict.fromkeys(held, ())
    while True:
        cards = {card.uuid: card for card in gauge()}
        for uuid, card in cards.items():
            earlier = looks.get(uuid, ())
            if uuid in held and card.taken_at > (earlier[-1].taken_at if earlier else ended_at):
                looks[uuid] = (*earlier, card)[-SETTLED_LOOKS:]
        waiting = [uuid for uuid in held if uuid in cards and not is_released(held[uuid], looks[uuid])]
        if not waiting:
            return True
        if time.monotonic() >= deadline:
            log.warning("memory of %s is not free %.0f s after its engine ended", ", ".join(waiting), deadline_s)
            return False
        await asyncio.sleep(POLL_S)


def _held(card: CardUse, pids: frozenset[int]) -> HeldMemory:
    if isinstance(card.by_process, Missing):
        return HeldMemory(card.used_bytes, None)
    own = sum(count for pid, count in card.by_process.items() if pid in pids)
    others = sum(card.by_process.values()) - own
    return HeldMemory(card.used_bytes, own or None, others)
