"""What a memory estimate needs to know of a model, read from its config.json and the headers of its weight files.

Weights are never loaded, and every read has a bound.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from backend.fit.checkpoint_format import checkpoint_format, is_packed
from backend.fit.config_keys import ConfigKeys
from backend.fit.element import dtype_bytes
from backend.fit.facts_error import ModelFactsError
from backend.fit.layer_layout import attention_heads_of, head_dim_of, kv_heads_of, kv_layers
from backend.fit.layers import KvLayer, LayerKind
from backend.fit.model_defaults import MODEL_DEFAULTS
from backend.fit.safetensors_header import TensorEntry, read_header
from backend.fit.weight_table import WeightTable, table_of_file_sizes, weight_table

CONFIG_FILE = "config.json"
INDEX_FILE = "model.safetensors.index.json"
SINGLE_FILE = "model.safetensors"
MOST_CONFIG_BYTES = 8 * 1024 * 1024
MOST_INDEX_BYTES = 64 * 1024 * 1024
MOST_SHARDS = 2048

_TEXT_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")


@dataclass(frozen=True)
class ExpertShape:
    """A mixture of experts."""

    experts: int
    experts_per_token: int
    intermediate_size: int  # of one expert


@dataclass(frozen=True)
class ModelFacts:
    """One model's shape and sizes."""

    architecture: str  # LlamaForCausalLM; "" where the config names none
    model_type: str
    layer_count: int
    kv_layers: tuple[KvLayer, ...]  # in order; a layer that keeps nothing is missing
    hidden_size: int
    intermediate_size: int
    experts: ExpertShape | None
    attention_heads: int
    kv_heads: int
    head_dim: int
    rotary_dim: int
    dtype: str | None  # what the config names: bfloat16
    quantization: str | None  # the method that the checkpoint names
    kv_cache_dtype: str | None  # what the checkpoint wants its KV cache in
    max_position: int | None  # tokens
    vocab_size: int
    is_tied: bool  # the head is the embedding again
    mtp_layers: int  # that guess ahead
    has_vision: bool
    weights: WeightTable | None = None

    def count(self, kind: LayerKind) -> int:
        """Layers of this kind."""
        return sum(layer.kind is kind for layer in self.kv_layers)


def facts_from_config(config: Mapping[str, Any], *, file: str) -> ModelFacts:
    """The facts that a config.json holds, without weights. Pure.

    Raises:
        ModelFactsError: a key is missing or impossible; names file and key.
    """
    top = ConfigKeys(config, file)
    text = _text_keys(top)
    checkpoint = checkpoint_format(top, text)
    head_dim = head_dim_of(text) if _has_heads(text) else 0
    architectures = top.items("architectures") or []
    return ModelFacts(
        architecture=str(architectures[0])[:200] if architectures else "",
        model_type=top.text("model_type") or "",
        layer_count=text.needed("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
        kv_layers=kv_layers(text),
        hidden_size=text.needed("hidden_size", "n_embd", "d_model"),
        intermediate_size=_intermediate_size(text),
        experts=_experts(text),
        attention_heads=attention_heads_of(text) if _has_heads(text) else 0,
        kv_heads=kv_heads_of(text) if _has_heads(text) else 0,
        head_dim=head_dim,
        rotary_dim=_rotary_dim(text, head_dim),
        dtype=text.text("dtype", "torch_dtype") or top.text("dtype", "torch_dtype"),
        quantization=checkpoint.quantization,
        kv_cache_dtype=checkpoint.kv_cache_dtype,
        max_position=_max_position(text),
        vocab_size=text.whole("vocab_size") or 0,
        is_tied=_is_tied(top, text),
        mtp_layers=text.whole("mtp_num_hidden_layers", "num_nextn_predict_layers") or 0,
        has_vision=top.has("vision_config"),
    )


def with_tensors(facts: ModelFacts, tensors: Iterable[TensorEntry]) -> ModelFacts:
    """These facts with the sizes of these tensors."""
    table = weight_table(
        tensors,
        layer_count=facts.layer_count,
        is_tied=facts.is_tied,
        has_packed=is_packed(facts.quantization),
    )
    return replace(facts, weights=table)


def with_file_sizes(facts: ModelFacts, size_bytes: int) -> ModelFacts:
    """These facts with weights of which only the length of their files is known."""
    element = dtype_bytes(facts.dtype or "") or 2
    return replace(facts, weights=table_of_file_sizes(size_bytes, element_bytes=element))


def read_model_facts(folder: Path) -> ModelFacts:
    """The facts of a model in a local folder. Reads its config, its index and the headers of its shards.

    Raises:
        ModelFactsError: a file is missing, broken or cut off; names it and the key.
    """
    facts = facts_from_config(
        _read_json(folder / CONFIG_FILE, most_bytes=MOST_CONFIG_BYTES), file=str(folder / CONFIG_FILE)
    )
    shards = _local_shards(folder)
    if shards:
        return with_tensors(facts, (tensor for shard in shards for tensor in read_header(shard)))
    others = [path for pattern in ("*.bin", "*.gguf", "*.pt") for path in folder.glob(pattern)]
    size = sum(path.stat().st_size for path in others[:MOST_SHARDS])
    return with_file_sizes(facts, size) if size else facts


def shards_of_index(index: Mapping[str, Any], *, file: str) -> tuple[str, ...]:
    """The weight files an index names, each once.

    Raises:
        ModelFactsError: it names none, too many, or a path outside the folder.
    """
    table = index.get("weight_map")
    if not isinstance(table, dict) or not table:
        raise ModelFactsError(f"{file}: weight_map is missing or empty.", hint="Download the model again.")
    names = sorted({name for name in table.values() if isinstance(name, str)})
    if not 0 < len(names) <= MOST_SHARDS:
        raise ModelFactsError(f"{file}: weight_map names {len(names)} files, not between 1 and {MOST_SHARDS}.")
    for name in names:
        if len(name) > 200 or name.startswith("/") or ".." in name.split("/"):
            raise ModelFactsError(f"{file}: weight_map names a file outside the model's folder: {name[:200]!r}.")
    return tuple(names)


def parse_json_object(text: bytes, *, file: str) -> Mapping[str, Any]:
    """A file's JSON object.

    Raises:
        ModelFactsError: it is none.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as err:
        raise ModelFactsError(f"{file} is not JSON: {err}.", hint="Download the model again.") from err
    if not isinstance(found, dict):
        raise ModelFactsError(f"{file} is not a JSON object.", hint="Download the model again.")
    return found


def _read_json(path: Path, *, most_bytes: int) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(most_bytes + 1)
    except OSError as err:
        raise ModelFactsError(f"{path} cannot be read: {err.strerror}.") from err
    if len(text) > most_bytes:
        raise ModelFactsError(f"{path} is longer than {most_bytes} bytes.")
    return parse_json_object(text, file=str(path))


def _local_shards(folder: Path) -> Sequence[Path]:
    index = folder / INDEX_FILE
    if index.is_file():
        names = shards_of_index(_read_json(index, most_bytes=MOST_INDEX_BYTES), file=str(index))
        return [folder / name for name in names]
    if (folder / SINGLE_FILE).is_file():
        return [folder / SINGLE_FILE]
    found = sorted(folder.glob("*.safetensors"))
    consolidated = [path for path in found if not path.name.startswith("consolidated")]
    return (consolidated or found)[:MOST_SHARDS]


def _text_keys(top: ConfigKeys) -> ConfigKeys:
    """The part about the language model, what its type leaves out filled in."""
    text = next(top.parts(*_TEXT_PARTS), top)
    text = next(text.parts("text_config"), text)
    model_type = text.values.get("model_type")
    defaults = MODEL_DEFAULTS.get(model_type, {}) if isinstance(model_type, str) else {}
    given = {key: value for key, value in text.values.items() if value is not None or key not in defaults}
    return ConfigKeys({**defaults, **given}, text.file, text.at)


def _has_heads(text: ConfigKeys) -> bool:
    return any(text.has(key) for key in ("num_attention_heads", "n_head", "n_heads"))


def _intermediate_size(text: ConfigKeys) -> int:
    value = text.values.get("intermediate_size")
    if isinstance(value, list):  # Gemma 3n: one a layer
        sizes = [size for size in value if isinstance(size, int)]
        return max(sizes, default=0)
    named = text.whole("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size")
    return named if named is not None else 4 * text.needed("hidden_size", "n_embd", "d_model")


def _experts(text: ConfigKeys) -> ExpertShape | None:
    value = text.values.get("num_experts")
    if isinstance(value, list):
        return None
    experts = text.whole("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
    if not experts:
        return None
    per_token = text.whole("num_experts_per_tok", "experts_per_token", "moe_k", "moe_topk") or 1
    width = text.values.get("moe_intermediate_size")
    size = _intermediate_size(text) if not isinstance(width, int) else text.whole("moe_intermediate_size")
    return ExpertShape(experts, per_token, size or _intermediate_size(text))


def _rotary_dim(text: ConfigKeys, head_dim: int) -> int:
    named = text.whole("qk_rope_head_dim", "rotary_dim")
    if named:
        return named
    share = text.number("partial_rotary_factor")
    for part in text.parts("rope_parameters"):
        share = share or part.number("partial_rotary_factor")
    return int(head_dim * min(1.0, share)) if share else head_dim


def _max_position(text: ConfigKeys) -> int | None:
    names = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length")
    return text.whole(*names, least=1)


def _is_tied(top: ConfigKeys, text: ConfigKeys) -> bool:
    if text.has("tie_word_embeddings"):
        return text.truth("tie_word_embeddings")
    return top.truth("tie_word_embeddings")
