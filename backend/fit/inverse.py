"""The other way round: the longest context and the most sequences that a card holds."""

from dataclasses import replace

from backend.fit.estimate import STARTS, FitEstimate, Verdict, estimate
from backend.fit.kv_cache import blocks_per_request, kv_bytes_needed
from backend.fit.model_facts import ModelFacts
from backend.fit.wish import CardMemory, FitWish

MOST_TOKENS = 16_777_216
MOST_SEQUENCES = 8192
_REFUSED = frozenset(Verdict) - STARTS - {Verdict.CONTEXT_TOO_LONG}


def longest_context(facts: ModelFacts, wish: FitWish, card: CardMemory, *, at_once: int = 1) -> int | None:
    """Tokens of the longest context of which `at_once` requests fit; None where the engine does not start at all.

    Never above what the model was made for.
    """
    most = min(facts.max_position or MOST_TOKENS, MOST_TOKENS)
    found = estimate(facts, replace(wish, context=most), card)
    if found.verdict in _REFUSED:
        return None
    if _holds(found, most, at_once):
        return most
    low, high = 0, most  # low fits, high does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _holds(found, middle, at_once) else (low, middle)
    return low or None


def most_sequences(facts: ModelFacts, wish: FitWish, card: CardMemory) -> int | None:
    """Requests of full length that are worked on at once without waiting; None where the engine does not start.

    More sequences also need more room for their logits, so each number is tried whole.
    """
    low, high = 0, MOST_SEQUENCES + 1
    while high - low > 1:
        middle = (low + high) // 2
        found = estimate(facts, replace(wish, sequences=middle), card)
        low, high = (middle, high) if found.verdict is Verdict.FITS else (low, middle)
    return low or None


def _holds(found: FitEstimate, context: int, at_once: int) -> bool:
    if not blocks_per_request(found.layout, context):
        return True
    return kv_bytes_needed(found.layout, context, sequences=at_once) <= found.kv_budget_bytes
