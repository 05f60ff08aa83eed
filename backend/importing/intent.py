"""vLLM flags that the preset has a key for: their values as the preset says them."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from backend.errors import PresetError
from backend.importing.flags import GivenFlag, json_object
from backend.launch.preset import INTENT_FLAGS, Sampling, Speculation

Note = Callable[..., None]

_DTYPES = {"half": "float16", "float": "float32"}
_KV_CACHE_DTYPES = frozenset({"auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"})
_COUNTS = frozenset({"tensor-parallel-size", "pipeline-parallel-size", "max-num-seqs"})
_TOKENS = frozenset({"max-model-len", "max-num-batched-tokens"})
_NUMBERS = frozenset({"gpu-memory-utilization", "cpu-offload-gb", "kv-offloading-size"})
_KEYS = {"tensor-parallel-size": "tensor", "pipeline-parallel-size": "pipeline", "revision": "revision"}
_UNITS = {"k": 1000, "m": 1000**2, "g": 1000**3, "K": 1024, "M": 1024**2, "G": 1024**3}  # as vLLM reads them
_SPECULATION_METHODS = frozenset({"ngram", "eagle", "eagle3", "draft_model", "suffix"})
_SPECULATION_KEYS = {
    "num_speculative_tokens": "tokens",
    "model": "model",
    "prompt_lookup_max": "lookup_max",
    "prompt_lookup_min": "lookup_min",
}


def intent_of(flag: GivenFlag, *, note: Note) -> dict[str, Any]:
    """The preset's keys that this flag stands for; none where the engine's own default is meant.

    Raises:
        PresetError: the value is not one of the flag's kind; the flag is named.
    """
    name, key = flag.name, _KEYS.get(flag.name, INTENT_FLAGS[flag.name])
    if isinstance(flag.value, bool):
        if name.startswith("enable-") or name == "enforce-eager":
            return {key: flag.value}
        raise PresetError(f"--{name} has no value.")
    if name in _TOKENS:
        return _tokens(flag, key)
    if name in _COUNTS:
        return {key: _count(flag)}
    if name in _NUMBERS:
        number = _number(flag)
        return {key: number} if number else {}
    if name == "served-model-name":
        first, *others = flag.value if isinstance(flag.value, tuple) else (flag.value,)
        if others:
            note("names_left_out", value=", ".join(others))
        return {key: first}
    if name == "kv-cache-dtype" and flag.text not in _KV_CACHE_DTYPES:
        note("value_left_out", name="--kv-cache-dtype", value=flag.text)
        return {}
    if name == "attention-backend":
        return _attention_backend(flag)
    if name == "speculative-config":
        return _speculation(flag, note=note)
    if name == "override-generation-config":
        return _sampling(flag, note=note)
    return {key: _DTYPES.get(flag.text, flag.text) if name == "dtype" else flag.text}


def _tokens(flag: GivenFlag, key: str) -> dict[str, int]:
    if flag.text in ("-1", "auto"):
        return {}
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgKMG]?)", flag.text)
    if match is None:
        raise PresetError(f"--{flag.name} {flag.text[:200]}: this is not a number of tokens.")
    return {
        key: int(float(match[1]) * _UNITS.get(match[2], 1))
        if "." in match[1]
        else int(match[1]) * _UNITS.get(match[2], 1)
    }


def _count(flag: GivenFlag) -> int:
    if not re.fullmatch(r"[1-9]\d{0,5}", flag.text):
        raise PresetError(f"--{flag.name} {flag.text[:200]}: this is not a number from 1.")
    return int(flag.text)


def _number(flag: GivenFlag) -> float:
    if not re.fullmatch(r"\d{1,9}(\.\d*)?|\.\d+", flag.text):
        raise PresetError(f"--{flag.name} {flag.text[:200]}: this is not a number.")
    return float(flag.text)


def _attention_backend(flag: GivenFlag) -> dict[str, str]:
    if flag.text.lower() == "auto":
        return {}
    name = flag.text.rpartition(".")[2]
    return {"attention_backend": "dflash2" if name.upper() in ("CUSTOM", "DFLASH2") else name}


def _speculation(flag: GivenFlag, *, note: Note) -> dict[str, Any]:
    given = json_object(flag)
    method = str(given.pop("method", "") or ("draft_model" if given.get("model") else ""))
    method = {"[ngram]": "ngram"}.get(method, method)
    if method == "mtp" or method.endswith("_mtp"):
        method = "mtp"
        if given.pop("model", None) is not None:
            note("parts_left_out", name="--speculative-config", value="model")
    if method not in _SPECULATION_METHODS and method != "mtp":
        note("value_left_out", name="--speculative-config", value=flag.text)
        return {}
    values = {own: given.pop(key) for key, own in _SPECULATION_KEYS.items() if key in given}
    if "tokens" not in values and method == "suffix":
        values["tokens"] = 32  # vLLM's own upper bound for suffix decoding
    if given:
        note("parts_left_out", name="--speculative-config", value=", ".join(map(str, given)))
    if "tokens" not in values:
        raise PresetError("--speculative-config: num_speculative_tokens is missing.")
    return {"speculation": _checked(Speculation, {"method": method, **values}, flag)}


def _sampling(flag: GivenFlag, *, note: Note) -> dict[str, Any]:
    given = json_object(flag)
    values = {key: given.pop(key) for key in Sampling.model_fields if key in given}
    if given:
        note("parts_left_out", name="--override-generation-config", value=", ".join(map(str, given)))
    return {"sampling": _checked(Sampling, values, flag)} if values else {}


def _checked(model: type[Speculation] | type[Sampling], values: Mapping[str, Any], flag: GivenFlag) -> Any:
    try:
        return model.model_validate(values)
    except ValueError as err:
        first = str(err).split("\n")[2].strip() if str(err).count("\n") > 1 else str(err)
        raise PresetError(f"--{flag.name} {flag.text[:200]}: {first}.") from err
