"""Will it fit? From a model's facts, a wish and a card to a bar of segments, a verdict and the engine's own numbers.

The KV tokens of a budget are exact arithmetic; the overheads are where an estimate errs. Everything is of the fullest of
the cards.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from backend.fit.assumption import Assumption
from backend.fit.element import dtype_bytes
from backend.fit.kv_cache import concurrency, kv_bytes_needed, kv_per_token, logged_tokens, request_bytes
from backend.fit.kv_layout import KvLayout, KvSettings, kv_layout
from backend.fit.kv_rules import KvRules, kv_rules
from backend.fit.model_facts import ModelFacts
from backend.fit.overheads import Overheads, batched_tokens, overheads, sequences
from backend.fit.weights import CardWeights, calculation_bytes, card_weights
from backend.fit.wish import DEFAULT_UTILIZATION, DEFAULT_UTILIZATION_OLD, CardMemory, FitWish


class SegmentKind(StrEnum):
    """The parts of the bar, in its order."""

    OTHERS = "others"  # other people's processes
    WEIGHTS = "weights"
    OVERHEAD = "overhead"
    KV = "kv"  # what the engine reserves for its KV cache
    FREE = "free"


class Verdict(StrEnum):
    """What will happen, the first that applies."""

    CANNOT_LAY_OUT = "cannot_lay_out"  # this engine refuses the model's mix of layers
    WEIGHTS_TOO_LARGE = "weights_too_large"  # they do not go on the card, even an empty one
    TOO_LITTLE_FREE = "too_little_free"  # less is free than the engine is to take: it refuses to start
    LOADING_TOO_LARGE = "loading_too_large"  # they would, but not while they are rearranged
    NO_KV_ROOM = "no_kv_room"  # nothing is left for a KV cache
    CONTEXT_TOO_LONG = "context_too_long"  # not one request of full length fits
    FEWER_AT_ONCE = "fewer_at_once"  # it starts; requests of full length wait for each other
    FITS = "fits"


STARTS = frozenset({Verdict.FITS, Verdict.FEWER_AT_ONCE})


@dataclass(frozen=True)
class Segment:
    """One part of the bar."""

    kind: SegmentKind
    bytes: int
    assumptions: tuple[Assumption, ...] = ()


@dataclass(frozen=True)
class FitEstimate:
    """The answer. Segments add up to the card where the verdict is that it starts."""

    segments: tuple[Segment, ...]
    verdict: Verdict
    total_bytes: int  # of the card
    requested_bytes: int  # what the engine is allowed to take
    kv_budget_bytes: int  # what is left for KV cache; below 0 where even the rest does not fit
    kv_needed_bytes: int  # so that all sequences of full length are worked on at once
    kv_one_bytes: int  # so that one is; less and the engine refuses to start
    kv_tokens: int | None  # as the engine will log it; None: the model keeps no KV cache
    full_requests: float | None  # of full length, at once
    token_bytes: int  # what one more token of context costs
    loading_peak_bytes: int  # on the card, while weights are loaded
    host_bytes: int  # main memory that is kept for weights and KV cache
    overhead_bytes: int  # predicted, without what this host has taught
    learned_bytes: int
    weights_bytes: int
    in_budget_bytes: int  # the part of the overhead that is taken from what utilization allows
    has_own_kv_size: bool  # the KV cache has a size of its own, not what utilization leaves
    context: int
    sequences: int
    layout: KvLayout

    @property
    def sum_bytes(self) -> int:
        """All segments, without what stays free."""
        return sum(segment.bytes for segment in self.segments if segment.kind is not SegmentKind.FREE)

    def segment(self, kind: SegmentKind) -> Segment:
        """This part of the bar."""
        return next(segment for segment in self.segments if segment.kind is kind)


def estimate(facts: ModelFacts, wish: FitWish, card: CardMemory) -> FitEstimate:
    """Whether this model fits so on this card. Pure, and well below 5 ms.

    Raises:
        ModelFactsError: nothing is known of the model's weights.
    """
    rules = rules_of(wish)
    weights = card_weights(facts, wish)
    extra = overheads(
        facts,
        wish,
        card_bytes=card.total_bytes,
        graphs_in_budget=rules.graphs_in_budget,
        learned_bytes=card.learned.offset_bytes,
    )
    layout = layout_of(facts, wish, card_bytes=card.total_bytes)
    requested = requested_bytes(wish, card, weights=weights, extra=extra)
    budget = requested - weights.resident - extra.in_budget
    if wish.kv_cache_bytes is not None:
        budget = wish.kv_cache_bytes
    return _assembled(
        facts, wish, card, layout=layout, weights=weights, extra=extra, requested=requested, budget=budget
    )


def rules_of(wish: FitWish) -> KvRules:
    """How the engine of this wish plans its KV cache."""
    stages = wish.gpus if wish.parallel == "pipeline" else 1
    return kv_rules(wish.version, wish.engine, pipeline_parallel=max(1, stages), cpu=wish.cpu)


def layout_of(facts: ModelFacts, wish: FitWish, *, card_bytes: int) -> KvLayout:
    """The KV cache of this launch; its context is not part of it."""
    rules, element = rules_of(wish), calculation_bytes(facts, wish)
    kv_dtype = wish.kv_dtype if wish.kv_dtype not in (None, "auto") else facts.kv_cache_dtype
    hybrid = wish.hybrid_manager
    if hybrid is None and wish.kv_offload_bytes and rules.offload_needs_one_kind:
        hybrid = False
    settings = KvSettings(
        rules=rules,
        element_bytes=(dtype_bytes(kv_dtype) if kv_dtype else None) or element,
        model_bytes=element,
        tensor_parallel=wish.gpus if wish.parallel == "tensor" else 1,
        pipeline_parallel=wish.gpus if wish.parallel == "pipeline" else 1,
        block_size=wish.block_size,
        batched_tokens=batched_tokens(wish, card_bytes=card_bytes),
        prefix_caching=wish.prefix_caching,
        speculative_tokens=wish.speculative_tokens,
        guessing_layers=facts.mtp_layers if wish.uses_mtp else 0,
        draft_layers=wish.draft_layers,
        hybrid_manager=hybrid,
        fp8_mla=kv_dtype == "fp8_ds_mla",
    )
    return kv_layout(facts, settings)


def requested_bytes(wish: FitWish, card: CardMemory, *, weights: CardWeights, extra: Overheads) -> int:
    """What the engine is allowed to take of the card: vLLM's ceil(total x utilization), or a KV cache of its own size."""
    if wish.kv_cache_bytes is not None:
        return weights.resident + extra.in_budget + wish.kv_cache_bytes
    default = DEFAULT_UTILIZATION if rules_of(wish).graphs_in_budget else DEFAULT_UTILIZATION_OLD
    return math.ceil(card.total_bytes * (wish.utilization if wish.utilization is not None else default))


def _assembled(
    facts: ModelFacts,
    wish: FitWish,
    card: CardMemory,
    *,
    layout: KvLayout,
    weights: CardWeights,
    extra: Overheads,
    requested: int,
    budget: int,
) -> FitEstimate:
    at_once = sequences(wish, card_bytes=card.total_bytes)
    one = kv_bytes_needed(layout, wish.context)
    needed = kv_bytes_needed(layout, wish.context, sequences=at_once)
    held = max(0, budget)
    verdict = _verdict(
        card, layout=layout, weights=weights, extra=extra, requested=requested, budget=budget, one=one, needed=needed
    )
    return FitEstimate(
        segments=_segments(
            facts, wish, card, layout=layout, weights=weights, extra=extra, held=held, requested=requested
        ),
        verdict=verdict,
        total_bytes=card.total_bytes,
        requested_bytes=requested,
        kv_budget_bytes=budget,
        kv_needed_bytes=needed,
        kv_one_bytes=one,
        kv_tokens=logged_tokens(layout, wish.context, budget_bytes=held),
        full_requests=concurrency(layout, wish.context, budget_bytes=held),
        token_bytes=kv_per_token(facts, layout).growing_bytes,
        loading_peak_bytes=weights.peak,
        host_bytes=weights.offloaded * max(1, wish.gpus) + wish.kv_offload_bytes,
        overhead_bytes=extra.total - card.learned.offset_bytes,
        learned_bytes=card.learned.offset_bytes,
        weights_bytes=weights.resident,
        in_budget_bytes=extra.in_budget,
        has_own_kv_size=wish.kv_cache_bytes is not None,
        context=wish.context,
        sequences=at_once,
        layout=layout,
    )


def _segments(
    facts: ModelFacts,
    wish: FitWish,
    card: CardMemory,
    *,
    layout: KvLayout,
    weights: CardWeights,
    extra: Overheads,
    held: int,
    requested: int,
) -> tuple[Segment, ...]:
    taken = card.used_by_others_bytes + weights.resident + extra.total + held
    return (
        Segment(SegmentKind.OTHERS, card.used_by_others_bytes, (Assumption("others_now", card.used_by_others_bytes),)),
        Segment(SegmentKind.WEIGHTS, weights.resident, weights.assumptions),
        Segment(SegmentKind.OVERHEAD, extra.total, extra.assumptions),
        Segment(SegmentKind.KV, held, _kv_assumptions(facts, wish, layout, requested)),
        Segment(SegmentKind.FREE, max(0, card.total_bytes - taken)),
    )


def _kv_assumptions(facts: ModelFacts, wish: FitWish, layout: KvLayout, requested: int) -> tuple[Assumption, ...]:
    per_token = kv_per_token(facts, layout)
    noted = [
        Assumption("kv_request", request_bytes(layout, wish.context), {"context": wish.context}),
        Assumption("kv_token", per_token.growing_bytes),
        Assumption("kv_block", layout.bytes_per_block, {"tokens": layout.block_size, "groups": layout.group_count}),
    ]
    if per_token.state_bytes:
        noted.append(Assumption("kv_state", per_token.state_bytes))
    if per_token.all_layers_bytes != per_token.growing_bytes:
        noted.append(Assumption("kv_window", per_token.all_layers_bytes - per_token.growing_bytes))
    if wish.kv_cache_bytes is None:
        noted.append(Assumption("kv_takes_the_rest", requested))
    return tuple(noted)


def _verdict(
    card: CardMemory,
    *,
    layout: KvLayout,
    weights: CardWeights,
    extra: Overheads,
    requested: int,
    budget: int,
    one: int,
    needed: int,
) -> Verdict:
    available = card.total_bytes - card.used_by_others_bytes
    free = available - extra.outside
    has_kv = bool(layout.groups)
    rules: tuple[tuple[bool, Verdict], ...] = (
        (layout.refusal is not None, Verdict.CANNOT_LAY_OUT),
        (weights.resident + extra.outside > card.total_bytes, Verdict.WEIGHTS_TOO_LARGE),
        (requested > free, Verdict.TOO_LITTLE_FREE),
        (weights.peak > free, Verdict.LOADING_TOO_LARGE),
        (has_kv and budget <= 0, Verdict.NO_KV_ROOM),
        (has_kv and one > budget, Verdict.CONTEXT_TOO_LONG),
        (has_kv and needed > budget, Verdict.FEWER_AT_ONCE),
    )
    return next((verdict for applies, verdict in rules if applies), Verdict.FITS)
