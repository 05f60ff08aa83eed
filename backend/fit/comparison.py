"""Predicted against logged: how far off an estimate was, and what a host learns from it."""

from dataclasses import dataclass
from enum import StrEnum

from backend.fit.engine_log import ROUNDING_BYTES, EngineFigures
from backend.fit.estimate import FitEstimate
from backend.fit.kv_cache import logged_tokens
from backend.fit.learned_overhead import LearnedOverhead


class Figure(StrEnum):
    """What is compared."""

    WEIGHTS = "weights"  # bytes
    KV_BYTES = "kv_bytes"  # bytes that were left for KV cache
    KV_TOKENS = "kv_tokens"  # tokens, from the predicted bytes
    TOKENS_OF_LOGGED_BYTES = "tokens_of_logged_bytes"  # tokens, from the bytes the engine logged: pure arithmetic
    OVERHEAD = "overhead"  # bytes: what was allowed, less weights and KV cache


@dataclass(frozen=True)
class Difference:
    """One figure, predicted and logged."""

    figure: Figure
    predicted: int
    logged: int
    is_within_rounding: bool  # the log's two decimals allow the prediction

    @property
    def difference(self) -> int:
        """Logged minus predicted: above 0 where more was taken, or left, than predicted."""
        return self.logged - self.predicted


@dataclass(frozen=True)
class FitComparison:
    """A start held against its estimate."""

    differences: tuple[Difference, ...]
    overhead_difference_bytes: int | None  # against the prediction without any offset; None: the log does not tell

    def of(self, figure: Figure) -> Difference | None:
        """This figure; None where the log did not tell it."""
        return next((found for found in self.differences if found.figure is figure), None)


def compare(predicted: FitEstimate, figures: EngineFigures) -> FitComparison:
    """Hold an estimate against what the engine logged. Pure."""
    found = []
    if figures.weights_bytes is not None:
        found.append(_bytes(Figure.WEIGHTS, predicted.weights_bytes, figures.weights_bytes))
    if figures.kv_bytes is not None:
        found.append(_bytes(Figure.KV_BYTES, max(0, predicted.kv_budget_bytes), figures.kv_bytes))
    if figures.kv_tokens is not None and predicted.kv_tokens is not None:
        is_same = predicted.kv_tokens == figures.kv_tokens
        found.append(Difference(Figure.KV_TOKENS, predicted.kv_tokens, figures.kv_tokens, is_same))
        found.extend(_tokens_of_logged_bytes(predicted, figures))
    overhead = _overhead(predicted, figures)
    if overhead is not None:
        found.append(_bytes(Figure.OVERHEAD, predicted.in_budget_bytes, overhead))
    learned = None if overhead is None else overhead - predicted.in_budget_bytes + predicted.learned_bytes
    return FitComparison(tuple(found), learned)


def learn(known: LearnedOverhead, comparison: FitComparison) -> LearnedOverhead:
    """What this host knows after this start."""
    if comparison.overhead_difference_bytes is None:
        return known
    return known.with_observation(comparison.overhead_difference_bytes)


def _bytes(figure: Figure, predicted: int, logged: int) -> Difference:
    return Difference(figure, predicted, logged, abs(logged - predicted) <= ROUNDING_BYTES)


def _tokens_of_logged_bytes(predicted: FitEstimate, figures: EngineFigures) -> list[Difference]:
    if figures.kv_bytes is None or figures.kv_tokens is None:
        return []
    context = figures.context or predicted.context
    low, middle, high = (
        logged_tokens(predicted.layout, context, budget_bytes=figures.kv_bytes + slack) or 0
        for slack in (-ROUNDING_BYTES, 0, ROUNDING_BYTES)
    )
    return [Difference(Figure.TOKENS_OF_LOGGED_BYTES, middle, figures.kv_tokens, low <= figures.kv_tokens <= high)]


def _overhead(predicted: FitEstimate, figures: EngineFigures) -> int | None:
    """What the engine took besides: its weights, where it does not log them, count as predicted."""
    if figures.kv_bytes is None or predicted.has_own_kv_size:
        return None
    weights = predicted.weights_bytes if figures.weights_bytes is None else figures.weights_bytes
    return predicted.requested_bytes - weights - figures.kv_bytes
