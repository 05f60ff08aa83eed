"""How a checkpoint's weights are stored, and what it wants its KV cache in, as its quantization config says."""

from dataclasses import dataclass

from backend.fit.config_keys import ConfigKeys

_FOUR_BIT = frozenset({"awq", "gptq", "awq_marlin", "gptq_marlin", "modelopt_fp4", "nvfp4", "mxfp4", "bitsandbytes"})
_FP8_KV_MODELS = frozenset({"deepseek_v32", "glm_moe_dsa"})  # vLLM gives sparse MLA an fp8 cache unless told otherwise


@dataclass(frozen=True)
class CheckpointFormat:
    """None: nothing is said, so weights and KV cache are as wide as what the model calculates in."""

    quantization: str | None = None
    kv_cache_dtype: str | None = None


def checkpoint_format(top: ConfigKeys, text: ConfigKeys) -> CheckpointFormat:
    """The format that a config names, at its top or in its language part."""
    keys = _quantization_keys(top, text)
    kv_cache = "fp8_ds_mla" if text.text("model_type") in _FP8_KV_MODELS else None
    if keys is None:
        return CheckpointFormat(kv_cache_dtype=kv_cache)
    return CheckpointFormat(_method(keys), kv_cache or _kv_cache_dtype(keys))


def is_packed(quantization: str | None) -> bool:
    """True where one stored element holds several weights."""
    if quantization is None:
        return False
    return quantization.replace("-", "_") in _FOUR_BIT or "packed" in quantization or "nvfp4" in quantization


def _quantization_keys(top: ConfigKeys, text: ConfigKeys) -> ConfigKeys | None:
    for keys in (top, text):
        found = keys.part("quantization_config") or keys.part("compression_config")
        if found is not None:
            return found
    return None


def _method(keys: ConfigKeys) -> str:
    """As people call it: compressed-tensors and ModelOpt say in other keys what they are."""
    method = (keys.text("quant_method") or "").lower().replace("_", "-")
    if method.startswith("modelopt") or not method:
        algorithm = (keys.text("quant_algo") or "").lower()
        for part in keys.parts("quantization"):
            algorithm = algorithm or (part.text("quant_algo") or "").lower()
        if algorithm in ("nvfp4", "fp8"):
            return algorithm
        return "nvfp4" if method == "modelopt-fp4" else f"{method or 'modelopt'} {algorithm}".strip()
    return _compressed_format(keys) if method == "compressed-tensors" else method


def _compressed_format(keys: ConfigKeys) -> str:
    form = (keys.text("format") or "").lower()
    if "nvfp4" in form:
        return "nvfp4"
    if form.startswith("float"):
        return "fp8"
    if form.startswith("int"):
        return "int8"
    return "compressed-tensors packed" if form.startswith("pack") else "compressed-tensors"


def _kv_cache_dtype(keys: ConfigKeys) -> str | None:
    """fp8 where the checkpoint asks for it: vLLM follows that where nobody asks for something else."""
    for part in (keys, *keys.parts("quantization")):
        scheme = part.values.get("kv_cache_scheme")
        if isinstance(scheme, dict) and scheme.get("type") == "float" and scheme.get("num_bits") == 8:
            return "fp8_e4m3"
        for name in (scheme, part.values.get("kv_cache_quant_algo")):
            if isinstance(name, str) and name.upper().startswith("FP8"):
                return "fp8_e4m3"
    return None
