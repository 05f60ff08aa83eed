"""Which layers a config means, by model type, with what the type's own default fills in."""

from typing import Any

import pytest

from backend.fit.config_keys import ConfigKeys
from backend.fit.layers import LayerKind
from backend.fit.recurrent_states import recurrent_state
from tests.backend.fit.fit_models import facts, shape

FULL, SLIDING, CHUNKED, MLA, RECURRENT = (
    LayerKind.FULL,
    LayerKind.SLIDING,
    LayerKind.CHUNKED,
    LayerKind.MLA,
    LayerKind.RECURRENT,
)


@pytest.mark.parametrize(
    ("config", "counts"),
    [
        pytest.param(
            shape(24, 14, 2, 64, model_type="qwen2", sliding_window=32768), {FULL: 24}, id="Qwen2, window off"
        ),
        pytest.param(
            shape(9, 4, 2, 64, model_type="qwen2", sliding_window=1024, use_sliding_window=True, max_window_layers=4),
            {FULL: 4, SLIDING: 5},
            id="Qwen2, window on from layer 4",
        ),
        pytest.param(shape(4, 4, 2, 64, model_type="mistral"), {SLIDING: 4}, id="Mistral's default window"),
        pytest.param(shape(4, 4, 2, 64, model_type="mistral", sliding_window=None), {FULL: 4}, id="Mistral, null"),
        pytest.param(shape(4, 4, 2, 64, model_type="llama", sliding_window=0), {FULL: 4}, id="a window of 0 is none"),
        pytest.param({"model_type": "gemma3_text", "num_hidden_layers": 34}, {FULL: 5, SLIDING: 29}, id="Gemma 3 4B"),
        pytest.param(shape(26, 8, 4, 256, model_type="gemma2"), {FULL: 13, SLIDING: 13}, id="Gemma 2"),
        pytest.param({"model_type": "gemma3n_text"}, {FULL: 4, SLIDING: 16}, id="Gemma 3n shares 15 of 35"),
        pytest.param({"model_type": "gpt_oss"}, {FULL: 18, SLIDING: 18}, id="gpt-oss-120b"),
        pytest.param(shape(40, 32, 8, 128, model_type="cohere2"), {FULL: 10, SLIDING: 30}, id="Command R7B"),
        pytest.param({"model_type": "llama4_text"}, {FULL: 12, CHUNKED: 36}, id="Llama 4 Scout"),
        pytest.param(shape(48, 16, 2, 256, model_type="qwen3_next"), {FULL: 12, RECURRENT: 36}, id="Qwen3-Next"),
        pytest.param(
            shape(27, 16, 16, 128, kv_lora_rank=512, qk_rope_head_dim=64, model_type="deepseek_v2"),
            {MLA: 27},
            id="DeepSeek-V2-Lite",
        ),
        pytest.param(
            shape(
                27,
                32,
                32,
                72,
                kv_lora_rank=512,
                qk_rope_head_dim=64,
                model_type="kimi_linear",
                linear_attn_config={
                    "kda_layers": [n for n in range(1, 28) if n % 4],
                    "num_heads": 32,
                    "head_dim": 128,
                    "short_conv_kernel_size": 4,
                },
            ),
            {MLA: 6, RECURRENT: 21},
            id="Kimi-Linear",
        ),
        pytest.param(
            shape(
                6,
                32,
                8,
                128,
                hybrid_override_pattern="M-M*-E",
                mamba_num_heads=8,
                mamba_head_dim=64,
                ssm_state_size=128,
            ),
            {FULL: 1, RECURRENT: 2},
            id="Nemotron-H",
        ),
        pytest.param(
            shape(4, 8, 2, 64, model_type="falcon_h1", mamba_n_heads=8, mamba_d_head=64, mamba_d_state=64),
            {FULL: 4, RECURRENT: 4},
            id="Falcon-H1 has both in every layer",
        ),
        pytest.param(
            shape(8, 8, 2, 64, model_type="jamba", attn_layer_period=8, attn_layer_offset=4, mamba_d_state=16),
            {FULL: 1, RECURRENT: 7},
            id="Jamba",
        ),
    ],
)
def test_the_kinds_of_a_models_layers(config: dict[str, Any], counts: dict[LayerKind, int]) -> None:
    found = facts(config)
    assert {kind: found.count(kind) for kind in LayerKind if found.count(kind)} == counts


def test_gemma_4_ends_with_a_full_layer_of_wider_and_fewer_heads() -> None:
    config = shape(8, 8, 4, 256, model_type="gemma4_text", num_global_key_value_heads=1, attention_k_eq_v=True)
    layers = facts(config).kv_layers
    assert [layer.kind for layer in layers].count(FULL) == 2
    assert layers[-1].kind is FULL
    assert (layers[-1].kv_heads, layers[-1].key_dim) == (1, 512)
    assert (layers[0].kv_heads, layers[0].key_dim, layers[0].window) == (4, 256, 512)


@pytest.mark.parametrize(
    ("config", "cards", "size"),
    [
        pytest.param(
            {
                "linear_num_key_heads": 16,
                "linear_num_value_heads": 48,
                "linear_key_head_dim": 128,
                "linear_value_head_dim": 128,
            },
            1,
            153_944_064 // 48,
            id="Qwen3.6-27B",
        ),
        pytest.param(
            {"linear_num_value_heads": 32, "model_type": "qwen3_next"},
            1,
            3 * 8192 * 2 + 32 * 128 * 128 * 2,
            id="Qwen3-Next keeps its matrix in two bytes",
        ),
        pytest.param(
            {"mamba_n_heads": 128, "mamba_d_head": 64, "mamba_d_state": 256, "mamba_n_groups": 1, "mamba_d_conv": 4},
            1,
            3 * (8192 + 2 * 256) * 2 + 128 * 64 * 256 * 2,
            id="Bamba",
        ),
        pytest.param(
            {"mamba_n_heads": 128, "mamba_d_head": 64, "mamba_d_state": 256, "mamba_n_groups": 1, "mamba_d_conv": 4},
            2,
            3 * (8192 + 2 * 2 * 256) // 2 * 2 + 64 * 64 * 256 * 2,
            id="Bamba on two cards repeats its group",
        ),
        pytest.param(
            {"linear_attn_config": {"num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4}},
            1,
            3 * 3 * 4096 * 2 + 32 * 128 * 128 * 4,
            id="Kimi-Linear",
        ),
        pytest.param({"conv_L_cache": 3, "conv_dim": 2048, "hidden_size": 2048}, 1, 2 * 2048 * 2, id="LFM2"),
        pytest.param(
            {"hidden_size": 4096, "mamba_expand": 2, "mamba_d_state": 16, "mamba_d_conv": 4},
            1,
            3 * 8192 * 2 + 8192 * 16 * 2,
            id="Jamba",
        ),
    ],
)
def test_the_size_of_a_state(config: dict[str, Any], cards: int, size: int) -> None:
    state = recurrent_state(ConfigKeys(config, "config.json"))
    assert state.state_bytes(element_bytes=2, tensor_parallel=cards, speculative_tokens=0) == size
