"""From a config.json to its layers: which attend to everything, which to a window, which keep a state.

The rules are those of transformers' configuration classes and of vLLM 0.19.1 to 0.32; where a config says nothing, its
model type's own default counts.
"""

from collections.abc import Callable, Mapping

from backend.fit.config_keys import ConfigKeys
from backend.fit.layers import KvLayer, LayerKind
from backend.fit.recurrent_states import recurrent_state

MOST_LAYERS = 2048

_NAMES: Mapping[str, LayerKind] = {
    "full_attention": LayerKind.FULL,
    "attention": LayerKind.FULL,
    "global": LayerKind.FULL,
    "sliding_attention": LayerKind.SLIDING,
    "sliding_window": LayerKind.SLIDING,
    "local": LayerKind.SLIDING,
    "chunked_attention": LayerKind.CHUNKED,
    "linear_attention": LayerKind.RECURRENT,
    "mamba": LayerKind.RECURRENT,
    "conv": LayerKind.RECURRENT,
    "recurrent": LayerKind.RECURRENT,
    "M": LayerKind.RECURRENT,
    "*": LayerKind.FULL,
}
_NO_MEMORY = frozenset({"-", "E", "mlp", "moe", "ffn"})  # layers of NemotronH that only compute

_EVERY_NTH_FULL: Mapping[str, tuple[int, int]] = {  # model type -> full layer every n-th, default window
    "gemma2": (2, 4096),
    "gemma3_text": (6, 4096),
    "gemma3n_text": (5, 512),
    "gemma4_text": (6, 512),
    "cohere2": (4, 4096),
    "exaone4": (4, 4096),
    "olmo3": (4, 4096),
    "gpt_oss": (2, 128),
}
_WINDOW_DEFAULT: Mapping[str, int] = {"mistral": 4096}
_SWITCHED_WINDOW = frozenset(
    {"qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "smollm3"}
)  # use_sliding_window is off by default
_MAMBA_ONLY = frozenset({"mamba", "mamba2", "falcon_mamba"})
_BOTH_IN_EVERY_LAYER = frozenset({"falcon_h1"})
_INDEXED_MLA = frozenset({"deepseek_v32", "glm_moe_dsa"})
_INDEX_GROUP = 128  # elements of the indexer's cache that share one float32 scale


def kv_layers(keys: ConfigKeys) -> tuple[KvLayer, ...]:
    """What every layer keeps, in order. A layer that shares another's cache, or keeps none, is not among them.

    Raises:
        ModelFactsError: a key is missing or impossible.
    """
    count = keys.needed("num_hidden_layers", "n_layer", "n_layers", "num_layers")
    if count > MOST_LAYERS:
        keys.refuse("num_hidden_layers", f"is {count}, more than {MOST_LAYERS}")
    if keys.has("kv_lora_rank"):
        return _mla_layers(keys, count)
    kinds = _kinds(keys, count)
    shared = keys.whole("num_kv_shared_layers") or 0
    kinds = kinds[: max(0, count - shared)]
    if keys.text("model_type") in _BOTH_IN_EVERY_LAYER:
        state = KvLayer(LayerKind.RECURRENT, state=recurrent_state(keys))
        return tuple(layer for _ in kinds for layer in (_attention(keys, LayerKind.FULL), state))
    made: dict[LayerKind, KvLayer] = {}
    layers = []
    for kind in kinds:
        if kind is None:
            continue
        if kind not in made:
            made[kind] = _layer(keys, kind)
        layers.append(made[kind])
    return tuple(layers)


def _mla_layers(keys: ConfigKeys, count: int) -> tuple[KvLayer, ...]:
    width = keys.needed("kv_lora_rank") + (keys.whole("qk_rope_head_dim") or 0)
    mla = KvLayer(LayerKind.MLA, kv_heads=1, key_dim=width)
    linear = keys.part("linear_attn_config")
    if linear is not None:
        state = KvLayer(LayerKind.RECURRENT, state=recurrent_state(keys))
        recurrent = set(linear.items("kda_layers") or ())  # counted from 1
        return tuple(state if number in recurrent else mla for number in range(1, count + 1))
    index_dim = keys.whole("index_head_dim")
    if index_dim and keys.text("model_type") in _INDEXED_MLA:
        token_bytes = index_dim + -(-index_dim // _INDEX_GROUP) * 4
        indexer = KvLayer(LayerKind.MLA, kv_heads=1, key_dim=index_dim, token_bytes=token_bytes)
        return tuple(layer for _ in range(count) for layer in (mla, indexer))
    return (mla,) * count


def _kinds(keys: ConfigKeys, count: int) -> list[LayerKind | None]:
    named = keys.items("layer_types") or keys.items("layers_block_type")
    if named is not None:
        if len(named) < count:
            keys.refuse("layer_types", f"has {len(named)} entries for {count} layers")
        return [_named(keys, name) for name in named[:count]]
    pattern = keys.text("hybrid_override_pattern")
    if pattern is not None:
        full = keys.values.get("hybrid_override_pattern")
        return [_named(keys, letter) for letter in str(full)[:count]]
    model_type = keys.text("model_type") or ""
    if model_type in _MAMBA_ONLY:
        return [LayerKind.RECURRENT] * count
    for rule in (_interval_kinds, _attention_list_kinds, _chunked_kinds, _sliding_kinds):
        kinds = rule(keys, count, model_type)
        if kinds is not None:
            return kinds
    return [LayerKind.FULL] * count


def _named(keys: ConfigKeys, name: object) -> LayerKind | None:
    if name in _NO_MEMORY:
        return None
    if not isinstance(name, str) or name not in _NAMES:
        keys.refuse("layer_types", f"names a kind of layer that is not known: {name!r:.60}")
    kind = _NAMES[name]
    if kind is LayerKind.SLIDING and _window(keys) is None:
        return LayerKind.FULL
    return kind


def _interval_kinds(keys: ConfigKeys, count: int, model_type: str) -> list[LayerKind | None] | None:
    """Every n-th layer attends, the others keep a state: Qwen3-Next, Qwen3.5, Jamba."""
    every = keys.whole("full_attention_interval", least=1)
    if every is None and model_type.startswith(("qwen3_next", "qwen3_5")):
        every = 4
    if every is not None:
        return _pattern(count, lambda i: LayerKind.RECURRENT if (i + 1) % every else LayerKind.FULL)
    period = keys.whole("attn_layer_period", least=1)
    if period is not None:
        offset = keys.whole("attn_layer_offset") or 0
        return _pattern(count, lambda i: LayerKind.FULL if i % period == offset else LayerKind.RECURRENT)
    return None


def _attention_list_kinds(keys: ConfigKeys, count: int, model_type: str) -> list[LayerKind | None] | None:
    """The attending layers are listed, the others keep a state: Bamba, LFM2, MiniMax."""
    flags = keys.items("attn_type_list")
    if flags is not None and len(flags) >= count:
        return _pattern(count, lambda i: LayerKind.FULL if flags[i] == 1 else LayerKind.RECURRENT)
    listed = keys.items("attn_layer_indices") or keys.items("full_attn_idxs")
    if listed is None:
        return None
    return _pattern(count, lambda i: LayerKind.FULL if i in listed else LayerKind.RECURRENT)


def _chunked_kinds(keys: ConfigKeys, count: int, model_type: str) -> list[LayerKind | None] | None:
    """Llama 4: layers without rotary positions attend to everything, the others within a chunk."""
    if model_type not in ("llama4_text", "llama4") or keys.values.get("attention_chunk_size", 8192) is None:
        return None
    flags = keys.items("no_rope_layers") or []
    if len(flags) >= count:
        return _pattern(count, lambda i: LayerKind.CHUNKED if flags[i] else LayerKind.FULL)
    every = keys.whole("no_rope_layer_interval", least=1) or 4
    return _pattern(count, lambda i: LayerKind.CHUNKED if (i + 1) % every else LayerKind.FULL)


def _sliding_kinds(keys: ConfigKeys, count: int, model_type: str) -> list[LayerKind | None] | None:
    if _window(keys) is None:
        return None
    if model_type in _SWITCHED_WINDOW:
        return _switched_kinds(keys, count, model_type)
    every = None
    if isinstance(keys.values.get("sliding_window_pattern"), int):
        every = keys.whole("sliding_window_pattern", least=1)
    if every is None and model_type in _EVERY_NTH_FULL:
        every = _EVERY_NTH_FULL[model_type][0]
    if every is None:
        if model_type == "" and not keys.truth("use_sliding_window", default=True):
            return None
        return [LayerKind.SLIDING] * count
    kinds = _pattern(count, lambda i: LayerKind.SLIDING if (i + 1) % every else LayerKind.FULL)
    if model_type == "gemma4_text":
        kinds[-1] = LayerKind.FULL
    return kinds


def _switched_kinds(keys: ConfigKeys, count: int, model_type: str) -> list[LayerKind | None] | None:
    """Qwen2 and Qwen3: full below max_window_layers, where the window is switched on at all."""
    if not keys.truth("use_sliding_window") or model_type == "qwen3_moe":
        return None
    first = keys.whole("max_window_layers")
    first = 28 if first is None else first
    return _pattern(count, lambda i: LayerKind.SLIDING if i >= first else LayerKind.FULL)


def _pattern(count: int, kind: Callable[[int], LayerKind]) -> list[LayerKind | None]:
    return [kind(index) for index in range(count)]


def _window(keys: ConfigKeys) -> int | None:
    """Tokens of the sliding window; None where there is none. Some checkpoints say 0 for none."""
    model_type = keys.text("model_type") or ""
    if "sliding_window" not in keys.values:
        if model_type in _EVERY_NTH_FULL:
            return _EVERY_NTH_FULL[model_type][1]
        return _WINDOW_DEFAULT.get(model_type)
    window = keys.whole("sliding_window")
    if not window:
        return None
    if model_type == "gemma3_text" and keys.truth("use_bidirectional_attention"):
        return window // 2 + 1
    return window


def _layer(keys: ConfigKeys, kind: LayerKind) -> KvLayer:
    if kind is LayerKind.RECURRENT:
        return KvLayer(kind, state=recurrent_state(keys))
    return _attention(keys, kind)


def _attention(keys: ConfigKeys, kind: LayerKind) -> KvLayer:
    heads, dim = kv_heads_of(keys), head_dim_of(keys)
    value_dim = keys.whole("v_head_dim", least=1) if keys.text("model_type") == "mimo_v2_flash" else None
    if kind is LayerKind.FULL:
        dim = keys.whole("global_head_dim", least=1) or dim
        if keys.truth("attention_k_eq_v"):
            heads = keys.whole("num_global_key_value_heads", least=1) or heads
    window = None
    if kind is LayerKind.SLIDING:
        window = _window(keys)
    elif kind is LayerKind.CHUNKED:
        window = keys.whole("attention_chunk_size", least=1) or 8192
    return KvLayer(kind, kv_heads=heads, key_dim=dim, value_dim=value_dim or dim, window=window)


def attention_heads_of(keys: ConfigKeys) -> int:
    """Query heads of an attention layer."""
    return keys.needed("num_attention_heads", "n_head", "n_heads")


def kv_heads_of(keys: ConfigKeys) -> int:
    """KV heads of an attention layer; as many as query heads where the config says nothing."""
    if keys.truth("multi_query") and not keys.truth("new_decoder_architecture"):
        return 1
    named = keys.whole("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", least=1)
    if named is not None:
        return named
    for part in keys.parts("attn_config"):
        inner = part.whole("kv_n_heads", least=1)
        if inner is not None:
            return inner
    return attention_heads_of(keys)


def head_dim_of(keys: ConfigKeys) -> int:
    """Elements of one head's key."""
    named = keys.whole("head_dim", "hidden_size_per_head", "attention_head_dim", least=1)
    if named is not None:
        return named
    return max(1, keys.needed("hidden_size", "n_embd", "d_model") // attention_heads_of(keys))
