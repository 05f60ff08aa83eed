"""The memory estimate's verdict as findings, with the change that makes it fit."""

import math
from collections.abc import Iterator

from backend.failure.failure import Fix, FixKind
from backend.fit.element import GIB
from backend.fit.estimate import FitEstimate, SegmentKind, Verdict
from backend.preflight.finding import Finding, Severity
from backend.preflight.rules_cards import card_taken, utilization
from backend.preflight.situation import Situation
from backend.preflight.target import gib, is_written_for_cpu, kv_step_gib

SMALLEST_CONTEXT = 64
HIGHEST_UTILIZATION = 0.95  # the driver and CUDA's own context need the rest
UTILIZATION_STEP = 0.01
FEW_REQUESTS = 2  # fewer of full length at once are worth a word even where nobody asked for more
SMALL_STEP = 512  # tokens; at this size a prefill's peak is small on any card


def fit(situation: Situation) -> Iterator[Finding]:
    """What the estimate says against it."""
    found = situation.estimate
    if found is None:
        values = {"reason": situation.estimate_error[:200] or "-"}
        yield Finding("fit_unknown", Severity.HINT, values)
        return
    if found.verdict is Verdict.FITS:
        return
    if found.verdict is Verdict.TOO_LITTLE_FREE and _is_told_already(situation):
        return
    if found.verdict is Verdict.FEWER_AT_ONCE and _is_nobodys_wish(situation, found):
        return
    rule, field = _RULES[found.verdict]
    severity = Severity.HINT if found.verdict is Verdict.FEWER_AT_ONCE else Severity.ERROR
    yield Finding(rule, severity, _values(situation, found), _fixes(situation, found), field)


_RULES = {
    Verdict.CANNOT_LAY_OUT: ("fit_cannot_lay_out", "kv_offload_gib"),
    Verdict.TOO_LITTLE_FREE: ("fit_too_little_free", "memory_utilization"),
    Verdict.WEIGHTS_TOO_LARGE: ("fit_weights_too_large", "gpus"),
    Verdict.LOADING_TOO_LARGE: ("fit_loading_too_large", "gpus"),
    Verdict.NO_KV_ROOM: ("fit_no_kv_room", "memory_utilization"),
    Verdict.CONTEXT_TOO_LONG: ("fit_context_too_long", "context"),
    Verdict.FEWER_AT_ONCE: ("fit_fewer_at_once", "max_sequences"),
}


def _is_nobodys_wish(situation: Situation, found: FitEstimate) -> bool:
    """The engine's own default of some hundred requests never fits at full length, and nobody asked for it."""
    return situation.preset.max_sequences is None and (found.full_requests or 0) >= FEW_REQUESTS


def _is_told_already(situation: Situation) -> bool:
    """The card is told about with the names of those who use it."""
    return any(finding.rule == "card_taken" for finding in card_taken(situation))


def _values(situation: Situation, found: FitEstimate) -> dict[str, str]:
    free = found.total_bytes - found.segment(SegmentKind.OTHERS).bytes
    return {
        "context": str(found.context),
        "sequences": str(found.sequences),
        "total": gib(found.total_bytes),
        "free": gib(free),
        "requested": gib(found.requested_bytes),
        "weights": gib(found.weights_bytes),
        "peak": gib(found.loading_peak_bytes),
        "overhead": gib(found.overhead_bytes + found.learned_bytes),
        "kv": gib(max(0, found.kv_budget_bytes)),
        "kv_one": gib(found.kv_one_bytes),
        "kv_needed": gib(found.kv_needed_bytes),
        "longest": str(situation.longest_context) if situation.longest_context else "-",
        "at_once": f"{found.full_requests:.1f}" if found.full_requests is not None else "-",
        "reason": found.layout.refusal or "-",
    }


def _fixes(situation: Situation, found: FitEstimate) -> tuple[Fix, ...]:
    verdict = found.verdict
    if verdict is Verdict.CONTEXT_TOO_LONG:
        return (*_shorter(situation), *_more_kv(situation, found, found.kv_one_bytes))
    if verdict is Verdict.FEWER_AT_ONCE:
        return _fewer(situation)
    if verdict is Verdict.TOO_LITTLE_FREE:
        return _less(situation, found)
    if verdict is Verdict.NO_KV_ROOM:
        return (*_more_kv(situation, found, found.kv_one_bytes), *_smaller_step(situation), *_more_cards(situation))
    if verdict in (Verdict.WEIGHTS_TOO_LARGE, Verdict.LOADING_TOO_LARGE):
        return _more_cards(situation)
    return (Fix(FixKind.DROP_FLAG, "kv-offloading-size"),) if situation.preset.kv_offload_gib else ()


def _shorter(situation: Situation) -> tuple[Fix, ...]:
    longest = situation.longest_context
    if longest is None or not SMALLEST_CONTEXT <= longest < situation.preset.context:
        return ()
    return (Fix(FixKind.CONTEXT, str(longest)),)


def _fewer(situation: Situation) -> tuple[Fix, ...]:
    most, asked = situation.most_sequences, situation.preset.max_sequences
    if not most or (asked is not None and most >= asked):
        return ()
    return (Fix(FixKind.MAX_SEQUENCES, str(most)),)


def _more_kv(situation: Situation, found: FitEstimate, needed: int) -> tuple[Fix, ...]:
    if found.has_own_kv_size or is_written_for_cpu(situation):
        step = kv_step_gib(situation)
        size = math.ceil(needed / GIB / step) * step
        return (Fix(FixKind.KV_CACHE_GIB, f"{size:g}"),) if is_written_for_cpu(situation) and size else ()
    lacking = needed - found.kv_budget_bytes
    share = utilization(situation) + lacking / max(1, found.total_bytes)
    higher = math.ceil(share / UTILIZATION_STEP) * UTILIZATION_STEP
    free = found.total_bytes - found.segment(SegmentKind.OTHERS).bytes
    if higher > HIGHEST_UTILIZATION or higher * found.total_bytes > free:
        return ()
    return (Fix(FixKind.MEMORY_UTILIZATION, f"{higher:.2f}"),)


def _less(situation: Situation, found: FitEstimate) -> tuple[Fix, ...]:
    """A smaller share of what is free, as far as weights and overhead leave something for KV cache."""
    free = found.total_bytes - found.segment(SegmentKind.OTHERS).bytes
    fixed = found.requested_bytes - found.kv_budget_bytes
    outside = found.overhead_bytes + found.learned_bytes - found.in_budget_bytes
    room = free - max(0, outside)
    if is_written_for_cpu(situation):
        step = kv_step_gib(situation)
        size = math.floor((room - fixed) / GIB / step) * step
        return (Fix(FixKind.KV_CACHE_GIB, f"{size:g}"),) if size >= step else ()
    share = math.floor(room / max(1, found.total_bytes) / UTILIZATION_STEP) * UTILIZATION_STEP
    if share * found.total_bytes < fixed + found.kv_one_bytes or not 0 < share < 1:
        return ()
    return (Fix(FixKind.MEMORY_UTILIZATION, f"{share:.2f}"),)


def _smaller_step(situation: Situation) -> tuple[Fix, ...]:
    tokens = situation.preset.max_batched_tokens
    return (Fix(FixKind.BATCHED_TOKENS, str(SMALL_STEP)),) if tokens is not None and tokens > SMALL_STEP else ()


def _more_cards(situation: Situation) -> tuple[Fix, ...]:
    gpus, there = situation.preset.gpus, len(situation.cards) + len(situation.others)
    return (Fix(FixKind.GPUS, str(gpus * 2)),) if gpus and gpus * 2 <= there else ()


RULES = (fit,)
