"""An estimate held against a log, and what the host learns from it."""

from dataclasses import replace

import pytest

from backend.fit.comparison import Figure, compare, learn
from backend.fit.engine_log import EngineFigures
from backend.fit.estimate import estimate
from backend.fit.learned_overhead import MOST_OBSERVATIONS, LearnedOverhead, overhead_from_record
from backend.fit.wish import FitWish
from backend.launch.engine_kind import EngineKind
from tests.backend.fit.fit_cards import LLAMA, RAM, SMOL, V100
from tests.backend.fit.fit_models import GIB

VOLTA = FitWish(8192, sequences=8, utilization=0.9, dtype="float16", engine=EngineKind.VOLTA, version="0.19.1")
CPU = FitWish(2048, engine=EngineKind.CPU, version="0.32.0", dtype="float32", kv_cache_bytes=GIB, block_size=32)


def test_a_log_that_agrees_is_within_its_rounding_and_teaches_nothing() -> None:
    predicted = estimate(LLAMA, VOLTA, V100)
    logged = EngineFigures(
        weights_bytes=round(predicted.weights_bytes / GIB, 2) * GIB,  # type: ignore[arg-type]
        kv_bytes=int(round(predicted.kv_budget_bytes / GIB, 2) * GIB),
        kv_tokens=predicted.kv_tokens,
    )
    found = compare(predicted, logged)
    assert all(difference.is_within_rounding for difference in found.differences if difference.figure != "overhead")
    assert found.overhead_difference_bytes == pytest.approx(0, abs=0.011 * GIB)


def test_less_kv_cache_than_predicted_is_overhead_that_the_next_estimate_counts() -> None:
    predicted = estimate(LLAMA, VOLTA, V100)
    logged = EngineFigures(weights_bytes=predicted.weights_bytes, kv_bytes=predicted.kv_budget_bytes - GIB)
    learned = learn(LearnedOverhead(), compare(predicted, logged))
    assert learned.offset_bytes == GIB
    again = estimate(LLAMA, VOLTA, replace(V100, learned=learned))
    assert again.kv_budget_bytes == logged.kv_bytes
    assert learn(learned, compare(again, logged)).offset_bytes == GIB


def test_weights_that_differ_are_not_taken_for_overhead() -> None:
    predicted = estimate(LLAMA, VOLTA, V100)
    logged = EngineFigures(
        weights_bytes=predicted.weights_bytes + GIB, kv_bytes=predicted.kv_budget_bytes - GIB, kv_tokens=1
    )
    found = compare(predicted, logged)
    assert found.overhead_difference_bytes == 0
    weights = found.of(Figure.WEIGHTS)
    assert weights is not None
    assert (weights.difference, weights.is_within_rounding) == (GIB, False)


def test_tokens_of_the_logged_bytes_are_arithmetic_apart_from_the_overhead() -> None:
    predicted = estimate(LLAMA, replace(VOLTA, context=20000), V100)
    found = compare(predicted, EngineFigures(kv_bytes=int(3.81 * GIB), kv_tokens=31_232, context=20000))
    tokens, arithmetic = found.of(Figure.KV_TOKENS), found.of(Figure.TOKENS_OF_LOGGED_BYTES)
    assert tokens is not None
    assert arithmetic is not None
    assert (tokens.is_within_rounding, arithmetic.is_within_rounding) == (False, True)


def test_a_kv_cache_of_its_own_size_teaches_nothing() -> None:
    predicted = estimate(SMOL, CPU, RAM)
    found = compare(predicted, EngineFigures(kv_bytes=GIB, kv_tokens=23_296))
    assert found.overhead_difference_bytes is None
    tokens = found.of(Figure.KV_TOKENS)
    assert tokens is not None
    assert tokens.difference == 0
    assert learn(LearnedOverhead((5,)), found) == LearnedOverhead((5,))


def test_a_log_that_says_nothing_compares_nothing() -> None:
    assert compare(estimate(LLAMA, VOLTA, V100), EngineFigures()).differences == ()


def test_one_odd_start_does_not_move_what_was_learned() -> None:
    known = LearnedOverhead()
    for difference in (100, 110, 90, 10**9, 105):
        known = known.with_observation(difference)
    assert known.offset_bytes == 105


def test_what_was_learned_survives_a_file_and_keeps_the_last_starts_only() -> None:
    known = LearnedOverhead()
    for difference in range(20):
        known = known.with_observation(difference)
    assert len(known.differences) == MOST_OBSERVATIONS
    assert overhead_from_record(known.as_record()) == known
    assert overhead_from_record({"differences": [1, "2", None, True, 1 << 60]}) == LearnedOverhead((1,))
    assert overhead_from_record({"differences": "x"}) == LearnedOverhead()
