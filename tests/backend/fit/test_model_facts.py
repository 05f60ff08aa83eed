"""Facts from model folders: whole ones, sharded ones, quantized ones, and broken ones that name file and key."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.fit.facts_error import ModelFactsError
from backend.fit.layers import LayerKind
from backend.fit.model_facts import facts_from_config, read_model_facts
from tests.backend.fit.fit_files import SMOLLM, llama_tensors, write_model, write_shard
from tests.backend.fit.fit_models import MODELS, facts


def test_a_whole_folder_is_read_without_its_weights(tmp_path: Path) -> None:
    found = read_model_facts(write_model(tmp_path, SMOLLM, llama_tensors(SMOLLM)))
    assert found.architecture == "LlamaForCausalLM"
    assert (found.layer_count, found.kv_heads, found.head_dim, found.max_position) == (30, 3, 64, 8192)
    assert found.is_tied
    assert found.weights is not None
    assert found.weights.parameters == 134_515_008
    assert found.weights.stored_bytes == 2 * 134_515_008
    assert found.weights.is_exact


def test_shards_are_read_through_their_index(tmp_path: Path) -> None:
    tensors = llama_tensors(SMOLLM)
    names = list(tensors)
    shards = [{name: tensors[name] for name in names[part::3]} for part in range(3)]
    found = read_model_facts(write_model(tmp_path, SMOLLM, *shards))
    assert found.weights is not None
    assert found.weights.parameters == 134_515_008


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    tensors = llama_tensors(SMOLLM)
    names = list(tensors)
    folder = write_model(tmp_path, SMOLLM, *({name: tensors[name] for name in names[part::2]} for part in range(2)))
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ModelFactsError, match=r"model-00002-of-00002\.safetensors cannot be read"):
        read_model_facts(folder)


def test_a_head_that_repeats_the_embedding_is_not_counted_twice(tmp_path: Path) -> None:
    found = read_model_facts(write_model(tmp_path, SMOLLM, llama_tensors(SMOLLM, head=True)))
    assert found.weights is not None
    assert found.weights.parameters == 134_515_008
    assert found.weights.head.stored == 0


def test_weights_in_another_format_count_by_the_length_of_their_files(tmp_path: Path) -> None:
    folder = write_model(tmp_path, SMOLLM)
    (folder / "pytorch_model.bin").write_bytes(b"x" * 1000)
    found = read_model_facts(folder)
    assert found.weights is not None
    assert (found.weights.stored_bytes, found.weights.is_exact) == (1000, False)


def test_a_folder_without_weights_has_facts_without_weights(tmp_path: Path) -> None:
    assert read_model_facts(write_model(tmp_path, SMOLLM)).weights is None


def test_a_language_model_inside_a_picture_model_is_found(tmp_path: Path) -> None:
    config = {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        "vision_config": {},
        "text_config": {
            **MODELS["Qwen/Qwen3.6-27B = 3.8-27B (text)"]["config"],
            "model_type": "qwen3_5_text",
            "dtype": "bfloat16",
            "vocab_size": 248320,
            "mtp_num_hidden_layers": 1,
            "max_position_embeddings": 262144,
            "rope_parameters": {"partial_rotary_factor": 0.25},
            "mamba_ssm_dtype": "float32",
        },
    }
    found = facts(config)
    assert (found.count(LayerKind.FULL), found.count(LayerKind.RECURRENT)) == (16, 48)
    assert (found.rotary_dim, found.mtp_layers, found.dtype, found.has_vision) == (64, 1, "bfloat16", True)


@pytest.mark.parametrize(
    ("quantization", "method", "kv"),
    [
        ({"quant_method": "awq", "bits": 4}, "awq", None),
        ({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}, "nvfp4", None),
        ({"quant_method": "compressed-tensors", "format": "float-quantized"}, "fp8", None),
        (
            {
                "quant_method": "compressed-tensors",
                "format": "float-quantized",
                "kv_cache_scheme": {"type": "float", "num_bits": 8},
            },
            "fp8",
            "fp8_e4m3",
        ),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}, "nvfp4", "fp8_e4m3"),
        ({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}}, "fp8", None),
        ({"quant_method": "mxfp4"}, "mxfp4", None),
    ],
)
def test_the_format_of_a_checkpoint_is_named(quantization: dict[str, Any], method: str, kv: str | None) -> None:
    found = facts({**SMOLLM, "quantization_config": quantization})
    assert (found.quantization, found.kv_cache_dtype) == (method, kv)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_hidden_layers": None}, "num_hidden_layers is missing"),
        ({"num_hidden_layers": "thirty"}, "num_hidden_layers is 'thirty', not a whole number"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000, more than"),
        ({"hidden_size": -1}, "hidden_size is -1, not between"),
        ({"head_dim": 0}, "head_dim is 0, not between"),
        ({"num_attention_heads": True}, "num_attention_heads is True"),
        ({"layer_types": ["full_attention"]}, "layer_types has 1 entries for 30 layers"),
        ({"layer_types": ["telepathy"] * 30}, "layer_types names a kind of layer that is not known: 'telepathy'"),
        ({"layer_types": ["linear_attention"] * 30}, "no key tells the shape of their state"),
        ({"layer_types": 7}, "layer_types is 7, not a list"),
        ({"quantization_config": "awq"}, "quantization_config is 'awq', not an object"),
    ],
)
def test_a_broken_config_names_file_and_key(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    folder = write_model(tmp_path, {**SMOLLM, **change})
    with pytest.raises(ModelFactsError) as raised:
        read_model_facts(folder)
    assert message in raised.value.message
    assert str(folder / "config.json") in raised.value.message


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", b"{", "is not JSON"),
        ("config.json", b"[]", "is not a JSON object"),
        ("config.json", b"[" * 100_000, "is not JSON"),
        ("config.json", b" " * (9 * 1024 * 1024), "is longer than"),
        ("model.safetensors", b"", "is cut off"),
        ("model.safetensors", b"\xff" * 16, "is not a safetensors file"),
        ("model.safetensors", (100).to_bytes(8, "little") + b"{}", "cut off inside its header"),
        ("model.safetensors", (2).to_bytes(8, "little") + b"{]", "its header is not JSON"),
        ("model.safetensors", (2).to_bytes(8, "little") + b"[]", "is not a table of tensors"),
        ("model.safetensors", (8).to_bytes(8, "little") + b'{"a": 1}', "entry for a is broken"),
        ("model.safetensors.index.json", b'{"weight_map": {}}', "weight_map is missing or empty"),
        ("model.safetensors.index.json", b'{"weight_map": {"a": "../b"}}', "outside the model's folder"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    folder = write_model(tmp_path, SMOLLM, llama_tensors(SMOLLM))
    (folder / name).write_bytes(content)
    with pytest.raises(ModelFactsError) as raised:
        read_model_facts(folder)
    assert message in raised.value.message
    assert name in raised.value.message


def test_a_file_that_lost_its_end_is_refused_with_both_lengths(tmp_path: Path) -> None:
    write_model(tmp_path, SMOLLM, llama_tensors(SMOLLM))
    path = tmp_path / "model.safetensors"
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 1)
    with pytest.raises(ModelFactsError, match=r"is cut off: \d+ of \d+ bytes"):
        read_model_facts(tmp_path)


def test_a_tensor_whose_bytes_do_not_match_its_shape_is_refused(tmp_path: Path) -> None:
    write_model(tmp_path, SMOLLM)
    header = json.dumps({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 4]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"1234")
    with pytest.raises(ModelFactsError, match="4 bytes for 4 elements of F32"):
        read_model_facts(tmp_path)


def test_guessing_layers_and_pictures_are_kept_apart(tmp_path: Path) -> None:
    tensors = llama_tensors(SMOLLM) | {
        "mtp.layers.0.mlp.up_proj.weight": ("BF16", [100, 10]),
        "model.layers.30.eh_proj.weight": ("BF16", [100]),
        "visual.blocks.0.attn.qkv.weight": ("BF16", [50, 10]),
    }
    found = read_model_facts(write_model(tmp_path, SMOLLM, tensors)).weights
    assert found is not None
    assert found.guessing.stored == 2200
    assert found.vision.stored == 1000
    assert found.always.stored == 2 * 134_515_008


def test_packed_weights_count_as_many_parameters_as_they_hold(tmp_path: Path) -> None:
    config = {**SMOLLM, "quantization_config": {"quant_method": "awq"}}
    tensors = {
        "model.layers.0.mlp.up_proj.qweight": ("I32", [576, 192]),
        "model.layers.0.mlp.up_proj.qzeros": ("I32", [5, 192]),
        "model.layers.0.mlp.up_proj.scales": ("F16", [5, 1536]),
    }
    found = read_model_facts(write_model(tmp_path, config, tensors)).weights
    assert found is not None
    assert found.parameters == 576 * 1536


def test_a_lone_weight_file_with_another_name_is_found(tmp_path: Path) -> None:
    write_model(tmp_path, SMOLLM)
    write_shard(tmp_path / "weights.safetensors", llama_tensors(SMOLLM))
    assert read_model_facts(tmp_path).weights is not None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=6,
)
KEYS = [
    *SMOLLM,
    "layer_types",
    "sliding_window",
    "sliding_window_pattern",
    "kv_lora_rank",
    "qk_rope_head_dim",
    "linear_attn_config",
    "linear_num_value_heads",
    "full_attention_interval",
    "num_kv_shared_layers",
    "text_config",
    "quantization_config",
    "rope_parameters",
    "num_experts",
    "moe_intermediate_size",
    "mamba_d_head",
    "mamba_n_heads",
    "hybrid_override_pattern",
    "no_rope_layers",
    "attn_layer_indices",
    "attn_type_list",
    "attn_layer_period",
]


@given(st.dictionaries(st.sampled_from(KEYS), json_values, max_size=4))
def test_whatever_a_config_says_it_is_facts_or_a_named_refusal(change: dict[str, Any]) -> None:
    try:
        found = facts_from_config({**SMOLLM, **change}, file="config.json")
    except ModelFactsError as err:
        assert "config.json" in err.message
    else:
        assert len(found.kv_layers) <= 2 * found.layer_count
