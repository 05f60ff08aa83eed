"""The KV cache against 18 models' numbers, public log lines, and what vLLM's own rules say."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.fit.kv_cache import (
    block_count,
    blocks_per_request,
    concurrency,
    kv_bytes_needed,
    kv_per_token,
    logged_tokens,
    request_bytes,
)
from backend.fit.kv_layout import stage_counts
from backend.launch.engine_kind import EngineKind
from tests.backend.fit.fit_models import GIB, MODELS, facts, layout, shape

GPT_OSS_120B = shape(
    36, 64, 8, 64, sliding_window=128, layer_types=["sliding_attention", "full_attention"] * 18, hidden_size=2880
)
QWEN_35B = MODELS["Qwen/Qwen3.6-35B-A3B (text)"]["config"]
QWEN_27B = MODELS["Qwen/Qwen3.6-27B = 3.8-27B (text)"]["config"]
LLAMA = MODELS["meta-llama/Llama-3.1-8B"]["config"]
GEMMA = MODELS["google/gemma-3-27b (text)"]["config"]


@pytest.mark.parametrize("name", MODELS)
def test_the_numbers_of_a_published_model_are_exact(name: str) -> None:
    model = MODELS[name]
    plan = layout(model["config"])
    per_token = kv_per_token(facts(model["config"]), plan)
    assert per_token.growing_bytes == model["kv_bytes_per_token_growing"]
    assert per_token.all_layers_bytes == model["kv_bytes_per_token_all_layers"]
    assert per_token.state_bytes == model["state_bytes"]
    assert request_bytes(plan, 32768) == model["need_32768"]
    assert plan.block_size == model["block"]
    assert plan.page_bytes == model["page"]
    assert plan.group_size == model["group_size"]
    assert plan.group_count == model["groups"]


@pytest.mark.parametrize(
    ("config", "gib", "context", "tokens", "settings"),
    [
        pytest.param(LLAMA, 3.81, 20000, 31_232, {"version": "0.19.1"}, id="Llama-3.1-8B"),
        pytest.param(MODELS["Qwen/Qwen3-1.7B"]["config"], 18.78, 1024, 175_856, {"version": "0.19.1"}, id="Qwen3-1.7B"),
        pytest.param(GPT_OSS_120B, 5.38, 131072, 78_384, {"version": "0.19.1"}, id="gpt-oss-120b, bf16 KV"),
        pytest.param(
            QWEN_35B,
            5.98,
            131072,
            567_978,
            {"version": "0.23.0", "element_bytes": 1, "prefix_caching": True},
            id="Qwen3.6-35B-A3B, fp8 KV",
        ),
        pytest.param(
            QWEN_27B,
            9.84,
            262144,
            619_202,
            {"version": "0.23.0", "element_bytes": 1, "prefix_caching": True, "tensor_parallel": 2},
            id="Qwen3.6-27B, fp8 KV, two cards",
        ),
    ],
)
def test_a_public_log_line_comes_out_within_its_rounding(
    config: dict[str, Any], gib: float, context: int, tokens: int, settings: dict[str, Any]
) -> None:
    plan = layout(config, **settings)
    low, high = (logged_tokens(plan, context, budget_bytes=int((gib + slack) * GIB)) for slack in (-0.005, 0.005))
    assert low is not None
    assert high is not None
    assert low <= tokens <= high


@pytest.mark.parametrize(
    ("config", "context", "gib"),
    [
        pytest.param(MODELS["deepseek-ai/DeepSeek-V2-Lite"]["config"], 32768, 0.95, id="DeepSeek-V2-Lite"),
        pytest.param(shape(48, 32, 4, 128, hidden_size=2048), 262144, 24.0, id="Qwen3-Coder-30B"),
    ],
)
def test_what_one_request_is_known_to_need_comes_out_within_its_rounding(
    config: dict[str, Any], context: int, gib: float
) -> None:
    assert round(request_bytes(layout(config), context) / GIB, 2) == gib


QWEN_122B = shape(
    48, 32, 2, 256, full_attention_interval=4, linear_num_key_heads=16, linear_num_value_heads=64, hidden_size=3072
)
GEMMA_4_E2B = shape(
    35,
    8,
    1,
    256,
    model_type="gemma4_text",
    layer_types=(["sliding_attention"] * 4 + ["full_attention"]) * 7,
    sliding_window=512,
    global_head_dim=512,
    num_kv_shared_layers=20,
)


@pytest.mark.parametrize(
    ("config", "gib", "context", "tokens", "requests", "settings"),
    [
        pytest.param(
            QWEN_122B,
            21.43,
            131072,
            467_712,
            11.79,
            {"version": "0.19.1", "element_bytes": 1, "prefix_caching": True},
            id="Qwen3.5-122B-A10B, fp8 KV",
        ),
        pytest.param(
            QWEN_122B,
            24.05,
            262144,
            482_080,
            6.42,
            {
                "version": "0.19.1",
                "element_bytes": 1,
                "prefix_caching": True,
                "speculative_tokens": 1,
                "guessing_layers": 1,
            },
            id="Qwen3.5-122B-A10B, fp8 KV, guessing one token",
        ),
        pytest.param(
            GEMMA_4_E2B, 0.93, 32768, 106_443, 3.25, {"version": "0.23.0", "batched_tokens": 8192}, id="Gemma 4 E2B"
        ),
    ],
)
def test_a_public_log_with_tokens_and_requests_comes_out_within_its_rounding(
    config: dict[str, Any], gib: float, context: int, tokens: int, requests: float, settings: dict[str, Any]
) -> None:
    plan = layout(config, **settings)
    found = {
        (logged_tokens(plan, context, budget_bytes=budget), f"{concurrency(plan, context, budget_bytes=budget):.2f}")
        for budget in range(int((gib - 0.005) * GIB), int((gib + 0.005) * GIB), 50_000)
    }
    assert (tokens, f"{requests:.2f}") in found


def test_a_public_log_of_qwen_3_5_27b_without_cached_beginnings() -> None:
    """vLLM 0.19.0 on an H20: 290,864 tokens and 33.04 requests of 32,768 tokens, from one number of blocks."""
    plan = layout(QWEN_27B, version="0.19.0", batched_tokens=16384)
    found = {
        f"{concurrency(plan, 32768, budget_bytes=blocks * plan.bytes_per_block):.2f}"
        for blocks in range(1400, 1600)
        if logged_tokens(plan, 32768, budget_bytes=blocks * plan.bytes_per_block) == 290_864
    }
    assert "33.04" in found


def test_the_report_changed_with_0_21() -> None:
    """Gemma 4 31B on an A100 with about 50 GiB: about 55,000 tokens before, about 525,000 after."""
    config = shape(
        60,
        32,
        16,
        256,
        model_type="gemma4_text",
        global_head_dim=512,
        num_global_key_value_heads=4,
        attention_k_eq_v=True,
        sliding_window=1024,
    )
    old, new = (layout(config, version=version) for version in ("0.20.0", "0.21.0"))
    assert logged_tokens(old, 262144, budget_bytes=50 * GIB) == pytest.approx(55_000, rel=0.02)
    assert (logged_tokens(new, 262144, budget_bytes=50 * GIB) or 0) > 450_000


def test_the_refusal_of_a_real_engine_comes_out_with_its_numbers() -> None:
    """vLLM 0.32.0: 0.35 GiB needed for 8,192 tokens, 0.28 there, 6,464 would fit. One block is held back."""
    smollm = shape(30, 9, 3, 64)
    plan = layout(smollm, engine=EngineKind.CPU, element_bytes=4, model_bytes=4, block_size=32)
    assert round(request_bytes(plan, 8192) / GIB, 2) == 0.35
    assert kv_bytes_needed(plan, 6464) <= 300_000_000 < kv_bytes_needed(plan, 6465)


def test_fewer_kv_heads_than_cards_leave_one_on_every_card() -> None:
    config = shape(10, 16, 4, 128)
    sizes = [layout(config, tensor_parallel=cards).bytes_per_block for cards in (1, 2, 4, 8, 16)]
    assert sizes == [size * sizes[-1] for size in (4, 2, 1, 1, 1)]


def test_mla_is_not_divided_among_cards() -> None:
    config = MODELS["deepseek-ai/DeepSeek-V2-Lite"]["config"]
    assert layout(config, tensor_parallel=8).bytes_per_block == layout(config).bytes_per_block


def test_sparse_mla_in_fp8_takes_656_bytes_a_token_and_its_indexer_132() -> None:
    config = shape(4, 16, 16, 128, kv_lora_rank=512, qk_rope_head_dim=64, index_head_dim=128, model_type="deepseek_v32")
    plan = layout(config, element_bytes=1, fp8_mla=True, block_size=64)
    assert plan.bytes_per_block == 4 * 64 * (656 + 132)


def test_an_fp8_cache_is_half_of_a_float16_one_and_holds_twice_the_tokens() -> None:
    half, full = layout(LLAMA, element_bytes=1), layout(LLAMA)
    assert half.bytes_per_block * 2 == full.bytes_per_block
    assert logged_tokens(half, 1024, budget_bytes=GIB) == 2 * (logged_tokens(full, 1024, budget_bytes=GIB) or 0)


def test_window_layers_stop_growing_behind_their_window() -> None:
    plan = layout(shape(8, 8, 8, 64, model_type="mistral", sliding_window=4096))
    assert blocks_per_request(plan, 65536) == blocks_per_request(plan, 131072) < 131072 // 16


def test_without_the_hybrid_manager_window_layers_keep_everything() -> None:
    plan = layout(GEMMA, hybrid_manager=False)
    assert plan.group_count == 1
    assert request_bytes(plan, 32768) == 32768 * MODELS["google/gemma-3-27b (text)"]["kv_bytes_per_token_all_layers"]


LLAMA4 = shape(48, 40, 8, 128, model_type="llama4_text", attention_chunk_size=8192)


def test_chunked_local_attention_keeps_everything_unless_it_is_told_otherwise() -> None:
    every_token = 48 * 2 * 8 * 128 * 2
    assert request_bytes(layout(LLAMA4, version="0.19.1"), 131072) == 131072 * every_token


def test_chunked_local_attention_keeps_a_chunk_and_a_step_with_the_hybrid_manager() -> None:
    plan = layout(LLAMA4, version="0.19.1", hybrid_manager=True)
    chunk_blocks = (8192 + 2048) // 16
    assert plan.group_count == 4
    assert blocks_per_request(plan, 131072) == 131072 // 16 + 3 * chunk_blocks


def test_layers_that_share_an_earlier_cache_need_none_of_their_own() -> None:
    types = ["sliding_attention"] * 4 + ["full_attention"]
    config = shape(10, 8, 2, 256, layer_types=types * 2, sliding_window=512)
    shared = {**config, "num_kv_shared_layers": 5}
    assert len(facts(shared).kv_layers) == 5
    assert layout(shared).group_size == 1
    assert layout(config).group_size == 2


def test_wider_global_heads_get_fewer_tokens_a_block() -> None:
    """Pages have to be equal: 16 tokens of 4 heads of 512 are as large as 8 of 16 heads of 256 would be."""
    config = shape(
        6,
        16,
        16,
        256,
        model_type="gemma4_text",
        global_head_dim=512,
        num_global_key_value_heads=4,
        attention_k_eq_v=True,
        sliding_window=512,
    )
    plan = layout(config, version="0.19.1")
    blocks = {group.spec.layer.window: group.spec.block for group in plan.groups}
    assert blocks == {512: 16, None: 32}
    assert plan.refusal is None


def test_pages_that_do_not_divide_are_refused_by_the_old_engine_and_padded_by_the_new() -> None:
    config = shape(
        6, 6, 6, 64, model_type="gemma4_text", global_head_dim=256, num_global_key_value_heads=1, attention_k_eq_v=True
    )
    assert layout(config, version="0.19.1").refusal == "pages_do_not_divide"
    assert layout(config).refusal is None


def test_the_states_of_a_hybrid_decide_the_block_and_speculation_widens_them() -> None:
    assert layout(QWEN_27B).block_size == 784
    assert layout(QWEN_27B, tensor_parallel=2).block_size == 784
    guessing = layout(QWEN_27B, speculative_tokens=3, guessing_layers=1)
    assert guessing.block_size == 800
    assert guessing.group_size == 17


def test_a_drafting_models_layer_pads_the_groups_instead_of_doubling_them() -> None:
    """gpt-oss-20b and an EAGLE layer: 12 window and 13 full layers are two groups of 13, not three of 12."""
    config = MODELS["openai/gpt-oss-20b"]["config"]
    full = next(layer for layer in facts(config).kv_layers if layer.window is None)
    plan = layout(config, draft_layers=(full,))
    assert (plan.group_count, plan.group_size) == (2, 13)


def test_a_state_is_kept_twice_only_where_beginnings_are_cached() -> None:
    off, on = (layout(QWEN_27B, version="0.19.1", prefix_caching=cached) for cached in (False, True))
    assert blocks_per_request(on, 784) - blocks_per_request(off, 784) == 3
    assert blocks_per_request(layout(QWEN_27B, version="0.19.1"), 784) == blocks_per_request(off, 784)
    assert blocks_per_request(layout(QWEN_27B), 784) == blocks_per_request(on, 784)


def test_a_hybrid_with_states_is_refused_without_the_hybrid_manager() -> None:
    assert layout(QWEN_27B, hybrid_manager=False).refusal == "one_kind_only"


def test_the_old_report_counts_blocks_and_the_new_one_requests() -> None:
    old, new = layout(GEMMA, version="0.19.1"), layout(GEMMA, version="0.23.0")
    budget, context = 20 * GIB, 32768
    assert logged_tokens(old, context, budget_bytes=budget) == block_count(old, budget) // 7 * 16
    requests = concurrency(new, context, budget_bytes=budget)
    assert requests is not None
    assert logged_tokens(new, context, budget_bytes=budget) == int(requests * context)


def test_pipeline_stages_get_the_rest_before_the_last_one() -> None:
    assert stage_counts(30, 4) == [7, 8, 8, 7]
    assert stage_counts(9, 2) == [5, 4]
    assert stage_counts(8, 4) == [2, 2, 2, 2]


def test_pipeline_stages_hold_their_own_layers_only() -> None:
    assert layout(LLAMA, pipeline_parallel=4).bytes_per_block * 4 == layout(LLAMA).bytes_per_block
    assert layout(QWEN_27B, pipeline_parallel=2).bytes_per_block * 2 == layout(QWEN_27B).bytes_per_block


def test_the_block_is_the_devices_own_unless_asked_for() -> None:
    assert layout(LLAMA).block_size == 16
    assert layout(LLAMA, engine=EngineKind.CPU).block_size == 128
    assert layout(LLAMA, engine=EngineKind.CPU, block_size=32).block_size == 32


configs = st.sampled_from([*(model["config"] for model in MODELS.values()), LLAMA4, GPT_OSS_120B])
settings = st.fixed_dictionaries(
    {
        "version": st.sampled_from(["0.19.1", "0.23.0", "0.32.0"]),
        "engine": st.sampled_from(EngineKind),
        "element_bytes": st.sampled_from([1, 2, 4]),
        "batched_tokens": st.integers(16, 65536),
        "prefix_caching": st.sampled_from([None, True, False]),
        "speculative_tokens": st.integers(0, 8),
        "hybrid_manager": st.sampled_from([None, True, False]),
    },
    optional={
        "tensor_parallel": st.sampled_from([1, 2, 3, 4, 8]),
        "pipeline_parallel": st.sampled_from([1, 2, 3, 4]),
        "block_size": st.sampled_from([None, 16, 32, 128]),
    },
)


@given(configs, settings, st.integers(1, 2_000_000), st.integers(0, 500_000), st.integers(1, 300))
def test_more_context_or_more_sequences_never_need_less(
    config: dict[str, Any], wish: dict[str, Any], context: int, more: int, sequences: int
) -> None:
    plan = layout(config, **wish)
    need = kv_bytes_needed(plan, context, sequences=sequences)
    assert need <= kv_bytes_needed(plan, context + more, sequences=sequences)
    assert need < kv_bytes_needed(plan, context, sequences=sequences + 1)


@given(configs, settings, st.integers(1, 1_000_000), st.integers(0, 10**12), st.integers(0, 10**11))
def test_more_budget_never_holds_less_and_the_need_of_a_request_holds_one(
    config: dict[str, Any], wish: dict[str, Any], context: int, budget: int, more: int
) -> None:
    plan = layout(config, **wish)
    tokens = logged_tokens(plan, context, budget_bytes=budget)
    assert tokens is not None
    assert tokens <= (logged_tokens(plan, context, budget_bytes=budget + more) or 0)
    requests = concurrency(plan, context, budget_bytes=kv_bytes_needed(plan, context))
    assert requests is not None
    assert requests >= 1
