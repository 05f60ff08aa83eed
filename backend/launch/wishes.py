"""From a preset's keys to the flags that mean them in the vLLM found. What a preset writes under `flags` comes later."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from backend.launch.engine_kind import EngineKind
from backend.launch.engine_tools import EngineTools
from backend.launch.notes import Note
from backend.launch.preset import DFLASH2, Flag, Preset
from backend.launch.spelling_error import SpellingError

KV_BYTES_VERSION = (0, 32)
"""First version seen to honour --kv-cache-memory-bytes on a CPU; VLLM_CPU_KVCACHE_SPACE takes whole GiB in every one."""

_PLAIN: tuple[tuple[str, str], ...] = (
    ("context", "max-model-len"),
    ("memory_utilization", "gpu-memory-utilization"),
    ("max_sequences", "max-num-seqs"),
    ("max_batched_tokens", "max-num-batched-tokens"),
    ("prefix_caching", "enable-prefix-caching"),
    ("chunked_prefill", "enable-chunked-prefill"),
    ("eager", "enforce-eager"),
    ("kv_cache_dtype", "kv-cache-dtype"),
    ("cpu_offload_gib", "cpu-offload-gb"),
    ("kv_offload_gib", "kv-offloading-size"),
)
_DTYPE_WORDS: Mapping[str, tuple[str, ...]] = {"float16": ("half", "float16"), "float32": ("float32", "float")}
_QUANTIZATION_WORDS: Mapping[str, tuple[str, ...]] = {
    "nvfp4": ("modelopt_fp4", "nvfp4"),
    "fp8": ("fp8",),
    "awq": ("awq",),
    "gptq": ("gptq",),
    "int8": ("compressed-tensors",),
}
_DECLARED_AS: Mapping[str, frozenset[str]] = {
    "nvfp4": frozenset({"modelopt", "modelopt_fp4", "modelopt_mixed", "compressed-tensors", "nvfp4", "petit_nvfp4"}),
    "fp8": frozenset({"fp8", "fbgemm_fp8", "modelopt", "modelopt_mixed", "compressed-tensors", "quark"}),
    "int8": frozenset({"compressed-tensors", "quark", "modelopt", "bitsandbytes", "gptq", "w8a8_int8"}),
    "awq": frozenset({"awq", "compressed-tensors"}),
    "gptq": frozenset({"gptq", "compressed-tensors"}),
}
_AT_LOAD = frozenset({"fp8"})
"""What vLLM can make of unquantized weights while it loads them; the others have to be in the checkpoint."""


@dataclass
class Wishes:
    """Flags collected one after another, without dashes. Owned by one call of spell()."""

    options: dict[str, Flag] = field(default_factory=dict)
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)  # flags whose value is a JSON object
    env: dict[str, str] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    def rendered(self) -> dict[str, Flag]:
        """All flags, the JSON objects as text."""
        return {**self.options, **{name: json.dumps(value) for name, value in self.objects.items()}}


def wishes_of(preset: Preset, tools: EngineTools, *, declared: str | None, draft: str | None) -> Wishes:
    """The preset's keys as flags of this vLLM.

    `declared` is the quantization method that the model's own files name: "" for none, None where nobody looked.
    `draft` is the folder of the model that guesses ahead.

    Raises:
        SpellingError: this vLLM cannot do what a key asks for.
    """
    wishes = Wishes()
    _dtype(preset, tools, wishes)
    for key, flag in _PLAIN:
        value = getattr(preset, key)
        if value is None or (key == "eager" and value is False):
            continue
        _need(tools, flag, wish=key)
        wishes.options[flag] = value
    _quantization(preset, tools, wishes, declared)
    _cards(preset, tools, wishes)
    _attention(preset, tools, wishes)
    _speculation(preset, tools, wishes, draft)
    _sampling(preset, tools, wishes)
    _cpu_cache(preset, tools, wishes)
    return wishes


def _need(tools: EngineTools, flag: str, *, wish: str) -> None:
    if not tools.has(flag):
        note = Note("no_such_wish", {"version": tools.title, "flag": flag, "wish": wish})
        raise SpellingError(note, flag=flag, nearest=tools.nearest(flag))


def _dtype(preset: Preset, tools: EngineTools, wishes: Wishes) -> None:
    dtype = preset.dtype
    if preset.engine is EngineKind.VOLTA:
        if dtype == "bfloat16":
            raise SpellingError(Note("bfloat16_on_volta"), flag="dtype", replacement="dtype: float16")
        if dtype == "auto":
            wishes.notes.append(Note("dtype_half"))
            dtype = "float16"
    words = _DTYPE_WORDS.get(dtype, (dtype,))
    wishes.options["dtype"] = next((word for word in words if tools.allows("dtype", word)), words[0])


def _quantization(preset: Preset, tools: EngineTools, wishes: Wishes, declared: str | None) -> None:
    wish = preset.quantization
    if wish == "nvfp4" and preset.engine is EngineKind.VOLTA and tools.is_probed and DFLASH2 not in tools.plugins:
        raise SpellingError(
            Note("no_dflash2_nvfp4"), flag="quantization", replacement="a preset with unquantized weights"
        )
    explicit = preset.flags.get("quantization")
    if explicit is not None:  # the engine's own name, which a person knows best; a name of ours is translated
        name = _own_name(str(explicit), tools)
        if name != explicit:
            wishes.notes.append(Note("quantization_own_name", {"value": str(explicit), "replacement": name}))
        wishes.options["quantization"] = name
        return
    if wish == "none":
        return
    if declared == "" and wish not in _AT_LOAD:
        raise SpellingError(Note("quantization_undeclared", {"value": wish}), flag="quantization")
    if declared and declared not in _DECLARED_AS[wish]:
        note = Note("quantization_mismatch", {"value": wish, "found": declared})
        raise SpellingError(note, flag="quantization")
    if declared != "":
        wishes.notes.append(Note("quantization_from_checkpoint", {"value": wish}))
        return
    wishes.options["quantization"] = _own_name(wish, tools)


def _own_name(quantization: str, tools: EngineTools) -> str:
    """What this vLLM calls a quantization: the first word that it lists, or the usual one where it lists none."""
    if quantization in tools.choices.get("--quantization", ()):
        return quantization
    words = _QUANTIZATION_WORDS.get(quantization, (quantization,))
    return next((word for word in words if tools.allows("quantization", word)), words[0])


def _cards(preset: Preset, tools: EngineTools, wishes: Wishes) -> None:
    if preset.gpus > 1:
        flag = f"{preset.parallel}-parallel-size"
        _need(tools, flag, wish="gpus")
        wishes.options[flag] = preset.gpus


def _attention(preset: Preset, tools: EngineTools, wishes: Wishes) -> None:
    backend = preset.attention_backend
    if backend is None:
        return
    if backend == DFLASH2:
        if tools.is_probed and DFLASH2 not in tools.plugins:  # CUSTOM without a plugin ends the start
            wishes.notes.append(Note("no_dflash2_attention"))
            return
        backend = "CUSTOM"
        if tools.is_probed and tools.has("gdn-prefill-backend"):  # dflash2 stands in for the Triton path only
            wishes.options["gdn-prefill-backend"] = "triton"
    if tools.has("attention-backend"):
        wishes.options["attention-backend"] = backend
    else:
        wishes.env["VLLM_ATTENTION_BACKEND"] = backend
        wishes.notes.append(Note("backend_by_env", {"value": backend}))


def _speculation(preset: Preset, tools: EngineTools, wishes: Wishes, draft: str | None) -> None:
    speculation = preset.speculation
    if speculation is None:
        return
    _need(tools, "speculative-config", wish="speculation")
    config: dict[str, Any] = {"method": speculation.method, "num_speculative_tokens": speculation.tokens}
    if speculation.model is not None:
        config["model"] = draft or speculation.model
    if speculation.lookup_max is not None:
        config["prompt_lookup_max"] = speculation.lookup_max
    if speculation.lookup_min is not None:
        config["prompt_lookup_min"] = speculation.lookup_min
    wishes.objects["speculative-config"] = config


def _sampling(preset: Preset, tools: EngineTools, wishes: Wishes) -> None:
    values = preset.sampling.model_dump(exclude_none=True) if preset.sampling else {}
    if values:
        _need(tools, "override-generation-config", wish="sampling")
        wishes.objects["override-generation-config"] = values


def _cpu_cache(preset: Preset, tools: EngineTools, wishes: Wishes) -> None:
    gib = preset.kv_cache_gib
    if gib is None:
        return
    if (
        not gib.is_integer()
        and tools.version
        and tools.version >= KV_BYTES_VERSION
        and tools.has("kv-cache-memory-bytes")
    ):
        wishes.options["kv-cache-memory-bytes"] = int(gib * 1024**3)
        return
    whole = math.ceil(gib)
    wishes.env["VLLM_CPU_KVCACHE_SPACE"] = str(whole)
    if whole != gib:
        wishes.notes.append(Note("kv_cache_rounded", {"asked": f"{gib:g} GiB", "given": f"{whole} GiB"}))
