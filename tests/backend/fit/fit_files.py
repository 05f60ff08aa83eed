"""Model folders made of headers alone: a safetensors file that says what it holds, its tensors a hole in the file."""

import json
from pathlib import Path
from typing import Any

from backend.fit.element import SAFETENSORS_BITS

SMOLLM: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
Tensors = dict[str, tuple[str, list[int]]]


def llama_tensors(config: dict[str, Any], *, dtype: str = "BF16", head: bool = False) -> Tensors:
    """Names and shapes as a published checkpoint has them."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    width = config["head_dim"] * config["num_attention_heads"]
    kv_width = config["head_dim"] * config["num_key_value_heads"]
    tensors: Tensors = {"model.embed_tokens.weight": (dtype, [config["vocab_size"], hidden])}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        tensors |= {
            f"{at}self_attn.q_proj.weight": (dtype, [width, hidden]),
            f"{at}self_attn.k_proj.weight": (dtype, [kv_width, hidden]),
            f"{at}self_attn.v_proj.weight": (dtype, [kv_width, hidden]),
            f"{at}self_attn.o_proj.weight": (dtype, [hidden, width]),
            f"{at}mlp.gate_proj.weight": (dtype, [inner, hidden]),
            f"{at}mlp.up_proj.weight": (dtype, [inner, hidden]),
            f"{at}mlp.down_proj.weight": (dtype, [hidden, inner]),
            f"{at}input_layernorm.weight": (dtype, [hidden]),
            f"{at}post_attention_layernorm.weight": (dtype, [hidden]),
        }
    tensors["model.norm.weight"] = (dtype, [hidden])
    if head:
        tensors["lm_head.weight"] = (dtype, [config["vocab_size"], hidden])
    return tensors


def header_bytes(tensors: Tensors) -> tuple[bytes, int]:
    """The start of a file, and how long the whole file is."""
    table: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in tensors.items():
        size = SAFETENSORS_BITS[dtype]
        for number in shape:
            size *= number
        table[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size // 8]}
        end += size // 8
    text = json.dumps(table).encode()
    return len(text).to_bytes(8, "little") + text, 8 + len(text) + end


def write_shard(path: Path, tensors: Tensors) -> None:
    """A file of full length that takes no room: behind the header is a hole."""
    start, length = header_bytes(tensors)
    with path.open("wb") as file:
        file.write(start)
        file.truncate(length)


def write_model(folder: Path, config: dict[str, Any], *shards: Tensors) -> Path:
    """A model folder; several shards get an index."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    if len(shards) == 1:
        write_shard(folder / "model.safetensors", shards[0])
        return folder
    weight_map = {}
    for number, tensors in enumerate(shards, start=1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        write_shard(folder / name, tensors)
        weight_map |= dict.fromkeys(tensors, name)
    if shards:
        index = json.dumps({"metadata": {}, "weight_map": weight_map})
        (folder / "model.safetensors.index.json").write_text(index, encoding="utf-8")
    return folder
