"""The longest context that vLLM allows for a model, from its config: position scaling counts differently by version."""

from collections.abc import Iterator, Mapping
from typing import Any

_TEXT_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")
_LENGTH_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
_COUNTED_IN = frozenset({"su", "longrope", "llama3", "default", ""})  # max_position_embeddings is the scaled length
_YARN = frozenset({"yarn", "deepseek_yarn", "deepseek_llama_scaling"})
YARN_COUNTED_IN = (0, 32)
"""First version seen that takes max_position_embeddings as already scaled by YaRN; 0.19.1 multiplies the original length."""
LAST_YARN_MULTIPLIED = (0, 19)
_MOST_TOKENS = 1 << 40


def context_limit(config: Mapping[str, Any], version: tuple[int, ...] | None) -> int | None:
    """Tokens; None where the config does not say. Of two readings, where the version is not known, the longer one."""
    text = _text_part(config)
    lengths = [length for key in _LENGTH_KEYS if (length := _whole(text.get(key))) is not None]
    if not lengths:
        return None
    limit = float(min(lengths))
    if "gemma3" not in str(text.get("model_type", "")):
        for rope in _ropes(text):
            limit = _scaled(limit, rope, version)
    return min(_MOST_TOKENS, max(int(limit), _whole(text.get("model_max_length")) or 0))


def _scaled(limit: float, rope: Mapping[str, Any], version: tuple[int, ...] | None) -> float:
    kind = str(rope.get("rope_type", rope.get("type", "")))
    factor = rope.get("factor")
    if kind in _COUNTED_IN or isinstance(factor, bool) or not isinstance(factor, int | float) or not factor > 0:
        return limit
    if kind not in _YARN:
        return min(limit * factor, _MOST_TOKENS)
    original = _whole(rope.get("original_max_position_embeddings"))
    stretched = min(((original if kind == "yarn" else None) or limit) * factor, _MOST_TOKENS)
    if version is not None and version >= YARN_COUNTED_IN:
        return limit
    if version is not None and version[:2] <= LAST_YARN_MULTIPLIED:
        return stretched
    return max(limit, stretched)


def _text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part about the language model."""
    for name in _TEXT_PARTS:
        part = config.get(name)
        if isinstance(part, dict):
            inner = part.get("text_config")
            return inner if isinstance(inner, dict) else part
    return config


def _ropes(text: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The last rule of position scaling, as vLLM takes it; nested by kind of layer in some models."""
    for name in ("rope_parameters", "rope_scaling"):
        found = text.get(name)
        if isinstance(found, dict):
            nested = [part for part in found.values() if isinstance(part, dict)]
            yield from nested[-1:] if nested and "rope_type" not in found else [found]
            return


def _whole(value: object) -> int | None:
    is_whole = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST_TOKENS
    return value if is_whole and isinstance(value, int) else None
