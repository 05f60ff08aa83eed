"""What weights take on a card, by dtype, method and cards."""

from dataclasses import replace

import pytest

from backend.fit.facts_error import ModelFactsError
from backend.fit.weights import card_weights
from backend.fit.wish import FitWish
from backend.launch.engine_kind import EngineKind
from tests.backend.fit.fit_cards import LLAMA, LLAMA_8B, SMOL, weighed
from tests.backend.fit.fit_files import llama_tensors
from tests.backend.fit.fit_models import GIB

PARAMETERS = 8_030_261_248
ROTARY = 131072 * 128 * 2


def test_sixteen_bit_weights_are_the_tensors_and_the_rotary_table() -> None:
    assert card_weights(LLAMA, FitWish(4096)).resident == 2 * PARAMETERS + ROTARY


def test_a_cpu_that_calculates_in_float32_doubles_sixteen_bit_weights() -> None:
    found = card_weights(SMOL, FitWish(2048, dtype="float32", engine=EngineKind.CPU))
    assert found.resident == 4 * 134_515_008 + 8192 * 64 * 4


def test_auto_makes_sixteen_bits_of_a_float32_checkpoint_on_a_card() -> None:
    wide = weighed({**LLAMA_8B, "torch_dtype": "float32"}, llama_tensors(LLAMA_8B, dtype="F32", head=True))
    assert card_weights(wide, FitWish(4096)).resident == 2 * PARAMETERS + ROTARY


@pytest.mark.parametrize(("method", "gib"), [("fp8", 8.5), ("nvfp4", 5.6), ("awq", 5.4)])
def test_a_quantization_that_the_checkpoint_lacks_counts_by_parameters(method: str, gib: float) -> None:
    found = card_weights(LLAMA, FitWish(4096, quantization=method))
    assert found.resident / GIB == pytest.approx(gib, abs=0.1)


def test_a_quantized_checkpoint_is_as_large_as_its_tensors_whatever_is_asked_for() -> None:
    config = {**LLAMA_8B, "quantization_config": {"quant_method": "awq"}}
    tensors = {
        "model.layers.0.mlp.up_proj.qweight": ("I32", [4096, 1792]),
        "model.layers.0.mlp.up_proj.scales": ("F16", [32, 14336]),
        "model.layers.0.extra": ("F32", [100]),
    }
    found = card_weights(weighed(config, tensors), FitWish(4096, quantization="awq"))
    assert found.resident == 4096 * 1792 * 4 + 32 * 14336 * 2 + 400 + ROTARY


def test_packed_weights_peak_at_a_third_more_while_they_are_rearranged() -> None:
    """A 21 GB AWQ checkpoint was seen to peak near 28 GB on one V100."""
    found = card_weights(LLAMA, FitWish(4096, quantization="awq"))
    assert found.peak / found.resident == pytest.approx(28 / 21, abs=0.01)


def test_tensor_parallel_halves_and_pipeline_gives_the_fullest_stage_more() -> None:
    one = card_weights(LLAMA, FitWish(4096)).resident - ROTARY
    tensor = card_weights(LLAMA, FitWish(4096, gpus=2)).resident - ROTARY
    pipeline = card_weights(LLAMA, FitWish(4096, gpus=2, parallel="pipeline")).resident - ROTARY
    assert tensor == one // 2
    assert tensor <= pipeline < one


def test_offloaded_weights_leave_the_card_and_no_more_than_there_are() -> None:
    found = card_weights(LLAMA, FitWish(4096, weights_offload_bytes=4 * GIB))
    assert found.resident == 2 * PARAMETERS + ROTARY - 4 * GIB
    assert found.offloaded == 4 * GIB
    assert card_weights(LLAMA, FitWish(4096, weights_offload_bytes=400 * GIB)).resident == ROTARY


def test_guessing_layers_and_pictures_count_where_they_are_loaded() -> None:
    tensors = llama_tensors(LLAMA_8B, head=True) | {
        "mtp.layers.0.mlp.up_proj.weight": ("BF16", [1000]),
        "visual.blocks.0.attn.qkv.weight": ("BF16", [500]),
    }
    model = weighed(LLAMA_8B, tensors)
    plain = card_weights(model, FitWish(4096)).resident
    assert card_weights(model, FitWish(4096, text_only=True)).resident == plain - 1000
    assert card_weights(model, FitWish(4096, uses_mtp=True)).resident == plain + 2000


def test_a_model_without_known_weights_is_refused() -> None:
    with pytest.raises(ModelFactsError, match="Nothing is known of the weights of LlamaForCausalLM"):
        card_weights(replace(LLAMA, weights=None), FitWish(4096))
