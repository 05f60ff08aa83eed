"""From a config.json to the state its recurrent layers keep, by the shapes vLLM gives them."""

from collections.abc import Callable

from backend.fit.config_keys import ConfigKeys
from backend.fit.element import dtype_bytes
from backend.fit.layers import RecurrentKind, RecurrentState

_STATE_DTYPE_KEYS = ("mamba_ssm_dtype", "mamba_ssm_cache_dtype")
_AUTO_STATE = frozenset({"qwen3_next", "olmo_hybrid"})  # their matrices are as wide as what the model calculates in


def recurrent_state(keys: ConfigKeys) -> RecurrentState:
    """The state of one recurrent layer.

    Raises:
        ModelFactsError: the config describes none that is known.
    """
    state = next((state for is_there, state in _SHAPES if is_there(keys)), None)
    if state is not None:
        return state(keys)
    return keys.refuse("layer_types", "names recurrent layers, and no key tells the shape of their state")


def _matrix_bytes(keys: ConfigKeys, *, default: int | None) -> int | None:
    named = keys.text(*_STATE_DTYPE_KEYS)
    if named is None or named == "auto":
        return default
    size = dtype_bytes(named)
    if size is None:
        keys.refuse("mamba_ssm_dtype", f"is {named!r}, a number format that is not known")
    return size


def _gated_delta(keys: ConfigKeys) -> RecurrentState:
    key_dim = keys.whole("linear_key_head_dim", least=1) or 128
    value_dim = keys.whole("linear_value_head_dim", least=1) or 128
    key_heads = keys.whole("linear_num_key_heads", least=1) or 16
    value_heads = keys.needed("linear_num_value_heads")
    default = None if keys.text("model_type") in _AUTO_STATE else 4
    return RecurrentState(
        RecurrentKind.GATED_DELTA,
        conv_channels=2 * key_dim * key_heads + value_dim * value_heads,
        conv_kernel=keys.whole("linear_conv_kernel_dim", least=1) or 4,
        heads=value_heads,
        head_elements=value_dim * key_dim,
        matrix_bytes=_matrix_bytes(keys, default=default),
        sees_ahead=True,
    )


def _kimi_delta(keys: ConfigKeys) -> RecurrentState:
    linear = keys.part("linear_attn_config") or keys
    heads, dim = linear.needed("num_heads"), linear.needed("head_dim")
    return RecurrentState(
        RecurrentKind.KIMI_DELTA,
        conv_channels=3 * heads * dim,
        conv_kernel=linear.whole("short_conv_kernel_size", least=1) or 4,
        heads=heads,
        head_elements=dim * dim,
        matrix_bytes=4,
    )


def _mamba2(keys: ConfigKeys) -> RecurrentState:
    heads = keys.needed("mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "num_heads")
    head_dim = _mamba2_head_dim(keys, heads)
    state_size = keys.needed("mamba_d_state", "ssm_state_size", "state_size")
    is_nemotron = keys.text("model_type") == "nemotron_h"
    return RecurrentState(
        RecurrentKind.MAMBA2,
        conv_channels=keys.whole("mamba_d_ssm", least=1) or heads * head_dim,
        conv_kernel=keys.whole("mamba_d_conv", "conv_kernel", least=1) or 4,
        groups=keys.whole("mamba_n_groups", "mamba_ngroups", "n_groups", least=1) or 1,
        group_channels=2 * state_size,
        heads=heads,
        head_elements=head_dim * state_size,
        matrix_bytes=_matrix_bytes(keys, default=2 if is_nemotron else None),
        chunk=keys.whole("mamba_chunk_size", "chunk_size", least=1),
        sees_ahead=is_nemotron or keys.text("model_type") == "mamba2",
        keeps_every_block=True,
    )


def _mamba2_head_dim(keys: ConfigKeys, heads: int) -> int:
    named = keys.values.get("mamba_d_head") if keys.values.get("mamba_d_head") != "auto" else None
    if named is not None:
        return keys.needed("mamba_d_head")
    other = keys.whole("mamba_head_dim", "mamba_headdim", "head_dim", least=1)
    if other is not None:
        return other
    expand = keys.number("mamba_expand") or keys.number("expand") or 2
    return max(1, int(expand * keys.needed("hidden_size")) // heads)


def _mamba1(keys: ConfigKeys) -> RecurrentState:
    inner = keys.whole("intermediate_size", least=1) if keys.text("model_type") in ("mamba", "falcon_mamba") else None
    if inner is None:
        expand = keys.number("mamba_expand") or keys.number("expand") or 2
        inner = int(expand * keys.needed("hidden_size"))
    return RecurrentState(
        RecurrentKind.MAMBA,
        conv_channels=inner,
        conv_kernel=keys.whole("mamba_d_conv", "conv_kernel", least=1) or 4,
        heads=inner,
        head_elements=keys.needed("mamba_d_state", "state_size"),
        matrix_bytes=_matrix_bytes(keys, default=None),
        keeps_every_block=True,
    )


def _short_conv(keys: ConfigKeys) -> RecurrentState:
    return RecurrentState(
        RecurrentKind.SHORT_CONV,
        conv_channels=keys.needed("conv_dim", "hidden_size"),
        conv_kernel=keys.needed("conv_L_cache"),
    )


def _lightning(keys: ConfigKeys) -> RecurrentState:
    heads = keys.needed("num_attention_heads")
    dim = keys.whole("head_dim", least=1) or max(1, keys.needed("hidden_size") // heads)
    return RecurrentState(RecurrentKind.LINEAR, heads=heads, head_elements=dim * dim)


_MAMBA2_HEADS = ("mamba_n_heads", "mamba_num_heads", "n_mamba_heads")

_SHAPES: tuple[tuple[Callable[[ConfigKeys], bool], Callable[[ConfigKeys], RecurrentState]], ...] = (
    (lambda keys: keys.has("linear_attn_config"), _kimi_delta),
    (lambda keys: keys.has("linear_num_value_heads"), _gated_delta),
    (lambda keys: any(keys.has(key) for key in _MAMBA2_HEADS) or keys.text("model_type") == "mamba2", _mamba2),
    (lambda keys: keys.has("mamba_d_state") or keys.has("state_size"), _mamba1),
    (lambda keys: keys.has("conv_L_cache"), _short_conv),
    (lambda keys: keys.has("attn_type_list") or keys.text("model_type") == "minimax", _lightning),
)
"""In this order: what a config has, and the state that means."""
