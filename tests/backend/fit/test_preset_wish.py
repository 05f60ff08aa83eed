"""Presets as wishes, and the shipped ones as whole estimates."""

from dataclasses import replace
from pathlib import Path

import pytest

from backend.fit.cpu_features import CpuFeatures
from backend.fit.estimate import STARTS, estimate
from backend.fit.model_facts import ModelFacts, facts_from_config, with_file_sizes
from backend.fit.preset_wish import wish_of_preset
from backend.fit.wish import CardMemory
from backend.launch.preset import Preset
from backend.launch.preset_file import read_preset
from tests.backend.fit.fit_cards import RAM, SMOL
from tests.backend.fit.fit_models import GIB, MODELS

PRESETS = Path(__file__).parents[3] / "presets"
QWEN_38 = {
    **MODELS["Qwen/Qwen3.6-27B = 3.8-27B (text)"]["config"],
    "model_type": "qwen3_5_text",
    "intermediate_size": 17408,
    "vocab_size": 248320,
    "max_position_embeddings": 262144,
    "rope_parameters": {"partial_rotary_factor": 0.25},
    "mtp_num_hidden_layers": 1,
    "quantization_config": {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"},
}


def qwen_38() -> ModelFacts:
    """Qwen3.8-27B in NVFP4: 20.5 GB of files."""
    return with_file_sizes(facts_from_config(QWEN_38, file="config.json"), 20_500_000_000)


def preset(name: str) -> Preset:
    return read_preset(PRESETS / f"{name}.yaml")


def test_the_embedded_model_is_predicted_as_its_engine_logs_it() -> None:
    wish = wish_of_preset(preset("smollm2-135m-cpu"), version="0.32.0")
    assert wish.block_size == 32
    assert estimate(SMOL, wish, RAM).kv_tokens == 23_296


def test_an_old_cpu_engine_takes_whole_gib_only() -> None:
    asked = preset("smollm2-135m-cpu").model_copy(update={"kv_cache_gib": 0.5})
    assert wish_of_preset(asked, version="0.32.0").kv_cache_bytes == GIB // 2
    assert wish_of_preset(asked, version="0.19.1").kv_cache_bytes == GIB


def test_the_guessing_preset_counts_its_tokens_and_the_models_own_layer() -> None:
    wish = wish_of_preset(preset("qwen3.8-27b-nvfp4-v100-mtp"), version="0.19.1")
    assert (wish.speculative_tokens, wish.uses_mtp, wish.text_only) == (2, True, True)
    assert estimate(qwen_38(), wish, CardMemory(int(31.7 * GIB))).layout.group_size == 17


@pytest.mark.parametrize(
    "name",
    [
        "qwen3.8-27b-nvfp4-v100-4k",
        "qwen3.8-27b-nvfp4-v100-16k",
        "qwen3.8-27b-nvfp4-v100-32k",
        "qwen3.8-27b-nvfp4-v100-mtp",
        "qwen3.8-27b-nvfp4-2xv100",
        "qwen3.8-27b-nvfp4-4xv100",
        "qwen3.8-27b-nvfp4-2xv100-16gb",
    ],
)
def test_a_shipped_preset_for_the_27b_starts_on_its_card(name: str) -> None:
    asked = preset(name)
    assert asked.card is not None
    shown = 31.7 / 32 * asked.card.memory_gib  # of 32 GB a V100 shows engines about 31.7 GiB
    found = estimate(qwen_38(), wish_of_preset(asked, version="0.19.1"), CardMemory(int(shown * GIB)))
    assert found.verdict in STARTS


def test_a_switched_off_manager_is_taken_from_the_flags() -> None:
    asked = preset("qwen3-8b-v100")
    off = asked.model_copy(update={"flags": {"disable_hybrid_kv_cache_manager": True}})
    assert wish_of_preset(off).hybrid_manager is False
    assert wish_of_preset(off.model_copy(update={"flags": {"no-disable-hybrid-kv-cache-manager": True}})).hybrid_manager
    assert wish_of_preset(asked).hybrid_manager is None


def test_wide_states_need_larger_blocks() -> None:
    granite = {
        **MODELS["Qwen/Qwen3-0.6B"]["config"],
        "layer_types": ["mamba", "mamba", "attention"] * 9 + ["mamba"],
        "mamba_n_heads": 48,
        "mamba_d_head": 64,
        "mamba_d_state": 128,
    }
    model = with_file_sizes(facts_from_config(granite, file="config.json"), GIB)
    wish = wish_of_preset(preset("smollm2-135m-cpu").model_copy(update={"dtype": "bfloat16"}), version="0.32.0")
    narrow, wide = (
        estimate(model, replace(wish, cpu=CpuFeatures(bfloat16=wide)), RAM).layout.block_size for wide in (False, True)
    )
    assert narrow < wide
