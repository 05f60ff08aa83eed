"""The cards as they are now: dropped, too few, used by somebody else, uneven."""

import math
from collections.abc import Iterator

from backend.failure.failure import Fix, FixKind
from backend.fit.wish import DEFAULT_UTILIZATION, DEFAULT_UTILIZATION_OLD
from backend.gpu.snapshot import GpuCardState
from backend.preflight.finding import Finding, Severity
from backend.preflight.situation import CardSituation, Situation
from backend.preflight.target import gib, is_written_for_cpu, known

LOWEST_UTILIZATION = 0.1
NOTEWORTHY_BYTES = 512 * 1024**2  # less than this is a desktop or the driver itself
UNEVEN = 0.05  # difference of two cards' memory that costs something
MOST_USERS = 3
_NEW_DEFAULT_VERSION = (0, 20)  # no version between 0.19.1 and 0.23.0 was looked at
_UNCLEAR_STATES = frozenset({GpuCardState.STARTING, GpuCardState.DENIED})


def card_not_ok(situation: Situation) -> Iterator[Finding]:
    """A chosen card fell off the bus, hangs, has no power or cannot be asked."""
    if is_written_for_cpu(situation):
        return
    for card in situation.cards:
        if card.state is GpuCardState.OK:
            continue
        values = {"card": card.name or card.uuid or "?", "state": card.state.value, "detail": card.detail[:200]}
        if card.state in _UNCLEAR_STATES:
            yield Finding("card_not_read", Severity.HINT, values, field="cards")
        else:
            yield Finding("card_dropped", Severity.ERROR, values, _other_cards(situation), "cards")


def another_card_dropped(situation: Situation) -> Iterator[Finding]:
    """A card that was not chosen is gone. It may take the driver with it at the next reset."""
    for card in situation.others:
        if card.state in (GpuCardState.LOST, GpuCardState.NEEDS_RESET) and not is_written_for_cpu(situation):
            values = {"card": card.name or card.uuid or "?", "state": card.state.value}
            yield Finding("another_card_dropped", Severity.HINT, values, field="cards")


def too_few_cards(situation: Situation) -> Iterator[Finding]:
    """The launch asks for more cards than there are."""
    wanted, have = situation.preset.gpus, len(situation.cards)
    if is_written_for_cpu(situation) or not have or have >= wanted:
        return
    fixes = (Fix(FixKind.GPUS, str(have)),)
    yield Finding("too_few_cards", Severity.ERROR, {"wanted": str(wanted), "have": str(have)}, fixes, "gpus")


def card_taken(situation: Situation) -> Iterator[Finding]:
    """Others use so much of a card that vLLM refuses to start: it wants its whole share to be free."""
    if is_written_for_cpu(situation):
        return
    for card in situation.cards:
        total, used = known(card.total_bytes), known(card.used_bytes)
        if card.state is not GpuCardState.OK or total is None or used is None or total <= 0:
            continue
        requested, free = math.ceil(total * utilization(situation)), max(0, total - used)
        if requested > free:
            values = {**_who(card), "free": gib(free), "total": gib(total), "requested": gib(requested)}
            fixes = (*_other_cards(situation), *_lower_utilization(free, total))
            yield Finding("card_taken", Severity.ERROR, values, fixes, "memory_utilization")
        elif used > NOTEWORTHY_BYTES:
            yield Finding("card_in_use", Severity.WARNING, _who(card), _other_cards(situation), "cards")


def card_memory_unknown(situation: Situation) -> Iterator[Finding]:
    """How much of a card is free cannot be read."""
    for card in situation.cards:
        is_known = known(card.total_bytes) is not None and known(card.used_bytes) is not None
        if card.state is GpuCardState.OK and not is_known and not is_written_for_cpu(situation):
            yield Finding("card_memory_unknown", Severity.HINT, {"card": card.name or card.uuid or "?"}, field="cards")


def uneven_cards(situation: Situation) -> Iterator[Finding]:
    """The cards share evenly: the smallest decides how much memory, the slowest how fast."""
    totals = {card.name: total for card in situation.cards if (total := known(card.total_bytes))}
    if situation.preset.gpus < 2 or len(totals) < 2 or min(totals.values()) > max(totals.values()) * (1 - UNEVEN):
        return
    small, large = min(totals, key=totals.__getitem__), max(totals, key=totals.__getitem__)
    values = {"small": small, "large": large, "small_size": gib(totals[small]), "large_size": gib(totals[large])}
    yield Finding("uneven_cards", Severity.WARNING, values, field="cards")


def utilization(situation: Situation) -> float:
    """The share of a card that vLLM will ask for."""
    asked = situation.preset.memory_utilization
    if asked is not None:
        return asked
    version = situation.tools.version
    is_old = version is not None and version < _NEW_DEFAULT_VERSION
    return DEFAULT_UTILIZATION_OLD if is_old else DEFAULT_UTILIZATION


def _who(card: CardSituation) -> dict[str, str]:
    """Who uses the card, and how much: "python (4711, anna) 12.00 GiB"."""
    users = sorted(card.users or (), key=lambda user: user.bytes or 0, reverse=True)
    named = []
    for user in users[:MOST_USERS]:
        owner = f", {user.user[:40]}" if user.user else ""
        size = f" {gib(user.bytes)}" if user.bytes is not None else ""
        name = f"engine {user.engine}" if user.engine else user.name[:40] or "?"
        named.append(f"{name} ({user.pid}{owner}){size}")
    more = f", + {len(users) - MOST_USERS}" if len(users) > MOST_USERS else ""
    used = known(card.used_bytes)
    return {
        "card": card.name or card.uuid,
        "who": ", ".join(named) + more or "?",
        "used": gib(used) if used is not None else "?",
    }


def _other_cards(situation: Situation) -> tuple[Fix, ...]:
    """Cards that would do: the good ones among those chosen, then the others with the most room; none where too few do."""
    good = [card.uuid for card in situation.cards if _has_room(card, situation) and not _is_used(card)]
    others = [card for card in situation.others if _has_room(card, situation)]
    others.sort(key=lambda card: (known(card.total_bytes) or 0) - (known(card.used_bytes) or 0), reverse=True)
    found = [*good, *(card.uuid for card in others)][: situation.preset.gpus]
    if len(found) < situation.preset.gpus or set(found) <= {card.uuid for card in situation.cards}:
        return ()
    return (Fix(FixKind.CARDS, ",".join(found)),)


def _has_room(card: CardSituation, situation: Situation) -> bool:
    total, used = known(card.total_bytes), known(card.used_bytes)
    if card.state is not GpuCardState.OK or not card.uuid or total is None or used is None:
        return False
    return math.ceil(total * utilization(situation)) <= total - used


def _is_used(card: CardSituation) -> bool:
    return (known(card.used_bytes) or 0) > NOTEWORTHY_BYTES


def _lower_utilization(free: int, total: int) -> tuple[Fix, ...]:
    share = math.floor(free / total * 100) / 100
    return (Fix(FixKind.MEMORY_UTILIZATION, f"{share:.2f}"),) if LOWEST_UTILIZATION <= share < 1 else ()


RULES = (card_not_ok, another_card_dropped, too_few_cards, card_taken, card_memory_unknown, uneven_cards)
