"""Which cards an engine is given: those that answer, that no other engine has, with the most free memory. Pure."""

from collections.abc import Collection, Sequence

from backend.errors import LaunchError
from backend.gpu.snapshot import GpuCard, GpuCardState, GpuSnapshot
from backend.launch.plan import GpuChoice
from backend.launch.preset import Preset
from backend.reading import Missing


def choose_cards(
    preset: Preset, cards: Sequence[GpuCard], *, taken: Collection[str], wanted: Sequence[str] = ()
) -> tuple[GpuChoice, ...]:
    """The cards for a preset. `wanted`: UUIDs a person chose. Empty where it needs none, or no card can be read.

    Raises:
        LaunchError: fewer cards are free than it needs, or one that was chosen does not answer; says what the others do.
    """
    needed = preset.gpus
    if wanted:
        return tuple(_chosen(uuid, cards) for uuid in wanted)
    if not needed or not cards:
        return ()
    answering = [card.snapshot for card in cards if card.state is GpuCardState.OK and card.snapshot is not None]
    free = [snapshot for snapshot in answering if snapshot.uuid not in taken]
    if len(free) < needed:
        raise LaunchError(
            f"{preset.title.en} needs {_cards(needed)}; {len(free)} of {len(cards)} are free.",
            hint=_why(cards, answering),
        )
    chosen = sorted(free, key=_free_bytes, reverse=True)[:needed]
    return tuple(GpuChoice(one.uuid, one.index) for one in sorted(chosen, key=lambda one: one.index))


def _chosen(uuid: str, cards: Sequence[GpuCard]) -> GpuChoice:
    """A card that a person chose, whoever else uses it: the preflight says so, and they decide."""
    for card in cards:
        if card.snapshot is not None and card.snapshot.uuid == uuid:
            if card.state is GpuCardState.OK:
                return GpuChoice(uuid, card.snapshot.index)
            raise LaunchError(f"The card {card.snapshot.name} ({uuid}) is {card.state}.", hint="Choose another card.")
    raise LaunchError(f"There is no card {uuid[:60]} now.", hint="Choose among those that the bar shows.")


def _free_bytes(snapshot: GpuSnapshot) -> int:
    """A card whose memory cannot be read comes last."""
    used, total = snapshot.memory_used_bytes, snapshot.memory_total_bytes
    return -1 if isinstance(used, Missing) or isinstance(total, Missing) else total - used


def _cards(count: int) -> str:
    return "1 card" if count == 1 else f"{count} cards"


def _why(cards: Sequence[GpuCard], answering: Sequence[GpuSnapshot]) -> str:
    silent = len(cards) - len(answering)
    words = "Stop an engine that uses one, or choose a preset for fewer."
    return f"{_cards(silent)} cannot be read (see the bar above). {words}" if silent else words
