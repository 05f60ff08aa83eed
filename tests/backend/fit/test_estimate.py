"""The whole estimate: its bar, its verdicts, its speed, and real engines on the CPU."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.fit.engine_log import read_figures
from backend.fit.estimate import STARTS, SegmentKind, Verdict, estimate
from backend.fit.inverse import longest_context
from backend.fit.learned_overhead import LearnedOverhead
from backend.fit.model_facts import ModelFacts, facts_from_config, with_file_sizes
from backend.fit.wish import CardMemory, FitWish
from backend.launch.engine_kind import EngineKind
from tests.backend.fit.fit_cards import LLAMA, RAM, SMOL, V100
from tests.backend.fit.fit_models import GIB, MODELS

LOGS = Path(__file__).with_name("logs")
CPU = FitWish(
    2048, engine=EngineKind.CPU, version="0.32.0", dtype="float32", kv_cache_bytes=GIB, block_size=32, sequences=4
)
VOLTA = FitWish(8192, sequences=8, utilization=0.9, dtype="float16", engine=EngineKind.VOLTA, version="0.19.1")


@pytest.mark.parametrize(
    ("log", "wish"),
    [
        ("cpu-0.32.0-context-2048.log", CPU),
        ("cpu-0.32.0-context-8192.log", replace(CPU, context=8192, kv_cache_bytes=2 * GIB, block_size=None)),
        ("cpu-0.32.0-context-900.log", replace(CPU, context=900, kv_cache_bytes=300_000_000, dtype="bfloat16")),
        ("cpu-0.19.1-context-2048.log", replace(CPU, version="0.19.1")),
    ],
)
def test_a_real_cpu_engine_logs_exactly_the_predicted_tokens(log: str, wish: FitWish) -> None:
    figures = read_figures((LOGS / log).read_text(encoding="utf-8").splitlines())
    predicted = estimate(SMOL, wish, RAM)
    assert figures.context == wish.context
    assert predicted.kv_tokens == figures.kv_tokens
    assert predicted.full_requests is not None
    assert f"{predicted.full_requests:.2f}" == f"{figures.concurrency:.2f}"


def test_a_real_cpu_engine_refuses_where_predicted_and_names_the_same_longest_context() -> None:
    figures = read_figures((LOGS / "cpu-0.32.0-refused.log").read_text(encoding="utf-8").splitlines())
    wish = replace(CPU, context=8192, kv_cache_bytes=300_000_000)
    predicted = estimate(SMOL, wish, RAM)
    assert predicted.verdict is Verdict.CONTEXT_TOO_LONG
    assert figures.longest_context == longest_context(SMOL, wish, RAM) == 6464


def test_the_segments_add_up_to_the_card() -> None:
    found = estimate(LLAMA, VOLTA, replace(V100, used_by_others_bytes=GIB))
    assert found.verdict is Verdict.FITS
    assert [segment.kind for segment in found.segments] == list(SegmentKind)
    assert sum(segment.bytes for segment in found.segments) == V100.total_bytes
    assert found.sum_bytes + found.segment(SegmentKind.FREE).bytes == V100.total_bytes


def test_every_segment_but_the_free_one_says_what_it_assumes() -> None:
    found = estimate(LLAMA, VOLTA, V100)
    for segment in found.segments:
        assert bool(segment.assumptions) is (segment.kind is not SegmentKind.FREE)


def test_what_is_allowed_is_the_share_of_the_card_rounded_up() -> None:
    assert estimate(LLAMA, replace(VOLTA, utilization=0.5), CardMemory(10 * GIB + 1)).requested_bytes == 5 * GIB + 1


@pytest.mark.parametrize(
    ("wish", "card", "verdict"),
    [
        pytest.param(VOLTA, V100, Verdict.FITS, id="fits"),
        pytest.param(replace(VOLTA, sequences=64), V100, Verdict.FEWER_AT_ONCE, id="fewer at once"),
        pytest.param(replace(VOLTA, context=131072), V100, Verdict.CONTEXT_TOO_LONG, id="context"),
        pytest.param(replace(VOLTA, utilization=0.48), V100, Verdict.NO_KV_ROOM, id="no KV room"),
        pytest.param(VOLTA, replace(V100, used_by_others_bytes=8 * GIB), Verdict.TOO_LITTLE_FREE, id="others"),
        pytest.param(VOLTA, CardMemory(12 * GIB), Verdict.WEIGHTS_TOO_LARGE, id="weights"),
        pytest.param(
            replace(VOLTA, quantization="awq", utilization=0.8),
            CardMemory(7 * GIB),
            Verdict.LOADING_TOO_LARGE,
            id="loading",
        ),
    ],
)
def test_the_verdict(wish: FitWish, card: CardMemory, verdict: Verdict) -> None:
    assert estimate(LLAMA, wish, card).verdict is verdict


def test_a_layout_the_engine_refuses_is_said_first() -> None:
    model = with_file_sizes(facts_from_config(MODELS["Qwen/Qwen3.5-9B (text)"]["config"], file="config.json"), 10 * GIB)
    offloading = replace(VOLTA, kv_offload_bytes=GIB)
    assert estimate(model, offloading, V100).verdict is Verdict.CANNOT_LAY_OUT
    assert estimate(model, replace(offloading, version="0.32.0"), V100).verdict in STARTS


def test_what_the_host_has_taught_moves_the_bar() -> None:
    taught = replace(V100, learned=LearnedOverhead((GIB,)))
    plain, moved = estimate(LLAMA, VOLTA, V100), estimate(LLAMA, VOLTA, taught)
    assert moved.kv_budget_bytes == plain.kv_budget_bytes - GIB
    assert moved.overhead_bytes == plain.overhead_bytes


def test_offloads_are_counted_in_main_memory() -> None:
    found = estimate(LLAMA, replace(VOLTA, weights_offload_bytes=2 * GIB, kv_offload_bytes=3 * GIB, gpus=2), V100)
    assert found.host_bytes == 2 * 2 * GIB + 3 * GIB


def test_an_estimate_takes_less_than_five_milliseconds() -> None:
    """Of the largest shapes; the fastest of several, since the machine has other work."""
    config = {**MODELS["google/gemma-3-27b (text)"]["config"], "vocab_size": 262208, "intermediate_size": 21504}
    model = with_file_sizes(facts_from_config(config, file="config.json"), 50 * GIB)
    times = []
    for _ in range(20):
        began = time.perf_counter()
        estimate(model, VOLTA, V100)
        times.append(time.perf_counter() - began)
    assert min(times) < 0.005


shapes = [
    with_file_sizes(facts_from_config(model["config"], file="config.json"), 2 * model["params"])
    for model in MODELS.values()
]
wishes = st.builds(
    FitWish,
    context=st.integers(1, 1_000_000),
    sequences=st.none() | st.integers(1, 8192),
    utilization=st.none() | st.floats(0.01, 1),
    batched_tokens=st.none() | st.integers(16, 100_000),
    dtype=st.sampled_from(["auto", "float16", "float32", "bfloat16"]),
    kv_dtype=st.sampled_from([None, "auto", "fp8", "float16", "fp8_e5m2"]),
    quantization=st.sampled_from([None, "none", "nvfp4", "fp8", "int8", "awq", "gptq"]),
    gpus=st.integers(1, 8),
    parallel=st.sampled_from(["tensor", "pipeline"]),
    eager=st.booleans(),
    prefix_caching=st.sampled_from([None, True, False]),
    speculative_tokens=st.integers(0, 8),
    uses_mtp=st.booleans(),
    weights_offload_bytes=st.integers(0, 10**12),
    kv_offload_bytes=st.integers(0, 10**12),
    kv_cache_bytes=st.none() | st.integers(0, 10**12),
    engine=st.sampled_from(EngineKind),
    version=st.sampled_from([None, "0.19.1", "0.23.0", "0.32.0", "0.33.1+cpu", "nonsense"]),
)
cards = st.builds(
    CardMemory,
    total_bytes=st.integers(1, 10**12),
    used_by_others_bytes=st.integers(0, 10**12),
    learned=st.builds(LearnedOverhead, st.lists(st.integers(-(10**10), 10**10), max_size=9).map(tuple)),
)


@given(st.sampled_from(shapes), wishes, cards)
def test_no_wish_and_no_card_break_it_and_a_start_adds_up(model: ModelFacts, wish: FitWish, card: CardMemory) -> None:
    found = estimate(model, wish, card)
    assert all(segment.bytes >= 0 for segment in found.segments)
    if found.verdict in STARTS:
        assert sum(segment.bytes for segment in found.segments) == card.total_bytes
        assert found.kv_one_bytes <= found.kv_budget_bytes


@given(st.sampled_from(shapes), wishes, cards, st.integers(1, 500_000))
def test_more_context_never_needs_less(model: ModelFacts, wish: FitWish, card: CardMemory, more: int) -> None:
    found, longer = estimate(model, wish, card), estimate(model, replace(wish, context=wish.context + more), card)
    assert longer.kv_needed_bytes >= found.kv_needed_bytes
    assert longer.kv_budget_bytes <= found.kv_budget_bytes
    assert longer.weights_bytes >= found.weights_bytes


@given(st.sampled_from(shapes), wishes, cards)
def test_the_longest_context_starts_and_one_more_token_does_not(
    model: ModelFacts, wish: FitWish, card: CardMemory
) -> None:
    fixed = replace(wish, batched_tokens=wish.batched_tokens or 2048)
    longest: Any = longest_context(model, fixed, card)
    if longest is None:
        return
    assert estimate(model, replace(fixed, context=longest), card).verdict in STARTS
    if longest < 16_777_216:
        assert estimate(model, replace(fixed, context=longest + 1), card).verdict not in STARTS
