"""Number formats, quantizations, head sizes and attention that a card or this vLLM does not have."""

from collections.abc import Iterator, Mapping

from backend.environment.environment import LackKey
from backend.failure.failure import Fix, FixKind
from backend.launch.preset import BFLOAT16_CAPABILITY, DFLASH2, FP8_KV_CAPABILITY
from backend.preflight.finding import Finding, Severity
from backend.preflight.situation import Situation
from backend.preflight.target import TURING, effective_kv_dtype, has_strange_plugins, is_written_for_cpu, targets

DFLASH2_HEAD_DIMS = (64, 96, 128, 192, 256)
SMALLEST_HEAD_DIM = 32  # of vLLM's Triton attention
CPU_HEAD_DIMS: Mapping[tuple[int, ...], tuple[int, ...]] = {
    (0, 19): (32, 64, 80, 96, 112, 128, 160, 192, 224, 256),
    (0, 32): (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512),
}
"""Of the CPU engine's attention, by version."""

LEAST_CAPABILITY = {
    "awq": (7, 5),
    "awq_marlin": (7, 5),
    "gptq_marlin": (7, 5),
    "fp8": (7, 5),
    "fbgemm_fp8": (8, 0),
    "experts_int8": (8, 0),
    "mxfp4": (8, 0),
    "torchao": (7, 5),
    "fp_quant": (10, 0),
    "mxfp8": (10, 0),
}
"""get_min_capability() of the quantization methods in vLLM 0.19.1. One that is not here asks for 7.0 or less, or varies."""


def bfloat16(situation: Situation) -> Iterator[Finding]:
    """bfloat16 was asked for, on a card before Ampere."""
    if situation.preset.dtype != "bfloat16":
        return
    for target in targets(situation):
        if target.capability < BFLOAT16_CAPABILITY:
            values = {"card": target.name, "capability": target.capability_text}
            yield Finding("bfloat16", target.severity, values, (Fix(FixKind.DTYPE, "float16"),), "dtype")


def kv_cache_format(situation: Situation) -> Iterator[Finding]:
    """A KV cache in a format that the card cannot read; the checkpoint itself may ask for it."""
    dtype = effective_kv_dtype(situation)
    is_fp8, is_bfloat16 = dtype.startswith("fp8"), dtype == "bfloat16"
    if not (is_fp8 or is_bfloat16):
        return
    least = FP8_KV_CAPABILITY if is_fp8 else BFLOAT16_CAPABILITY
    asked = situation.preset.kv_cache_dtype not in (None, "auto") or "kv-cache-dtype" in situation.preset.flags
    for target in targets(situation):
        if target.capability >= least:
            continue
        # Between Turing and Ada some attention backends keep an fp8 cache, others refuse it.
        severity = target.severity if target.capability < TURING or is_bfloat16 else Severity.WARNING
        values = {"dtype": dtype, "card": target.name, "capability": target.capability_text}
        rule = "kv_cache_format" if asked else "kv_cache_format_of_checkpoint"
        yield Finding(rule, severity, values, _other_kv_format(situation, asked), "kv_cache_dtype")


def _other_kv_format(situation: Situation, asked: bool) -> tuple[Fix, ...]:
    if "kv-cache-dtype" in situation.preset.flags:
        return (Fix(FixKind.DROP_FLAG, "kv-cache-dtype"),)
    facts = situation.model.facts
    wants = facts is not None and facts.kv_cache_dtype is not None
    return (Fix(FixKind.KV_CACHE_DTYPE, "auto" if asked and not wants else "float16"),)


def nvfp4(situation: Situation) -> Iterator[Finding]:
    """NVFP4 below Turing runs with dflash2 only."""
    if not is_nvfp4(situation):
        return
    for target in targets(situation):
        if target.capability >= TURING:
            continue
        values = {"card": target.name}
        broken = next((lack.detail for lack in situation.lacks if lack.key is LackKey.BROKEN_DFLASH2), None)
        fixes = (Fix(FixKind.ENVIRONMENT, "v100"),)
        if situation.tools.is_probed and DFLASH2 not in situation.tools.plugins:
            yield Finding("nvfp4_needs_dflash2", target.severity, values, fixes, "quantization")
        elif broken is not None:
            values = {**values, "reason": broken[:200]}
            yield Finding("nvfp4_dflash2_broken", target.severity, values, fixes, "quantization")


def is_nvfp4(situation: Situation) -> bool:
    """Whether the weights are NVFP4, by what is asked for or by what the checkpoint says."""
    facts = situation.model.facts
    return situation.preset.quantization == "nvfp4" or "nvfp4" in ((facts.quantization if facts else None) or "")


def quantization_needs_newer_card(situation: Situation) -> Iterator[Finding]:
    """A quantization whose kernels begin with a later generation."""
    facts = situation.model.facts
    method = (facts.quantization if facts else None) or situation.preset.quantization
    least = LEAST_CAPABILITY.get(method.replace("-", "_"))
    if least is None:
        return
    for target in targets(situation):
        if target.capability < least:
            values = {
                "method": method[:60],
                "card": target.name,
                "capability": target.capability_text,
                "needed": f"{least[0]}.{least[1]}",
            }
            # A plugin may bring kernels of its own for it.
            severity = Severity.WARNING if has_strange_plugins(situation) else target.severity
            yield Finding("quantization_needs_newer_card", severity, values, field="quantization")


def head_dim(situation: Situation) -> Iterator[Finding]:
    """A size of attention heads that the attention of this launch does not have."""
    facts = situation.model.facts
    if facts is None or not facts.head_dim or not facts.attention_heads:
        return
    if is_written_for_cpu(situation):
        sizes = cpu_head_dims(situation.tools.version)
        if sizes and facts.head_dim not in sizes and not _has_latent_cache(situation):
            yield _head_dim("head_dim_unsupported", Severity.ERROR, facts.head_dim, sizes)
        return
    uses_dflash2 = situation.preset.attention_backend == DFLASH2
    if uses_dflash2 and facts.head_dim not in DFLASH2_HEAD_DIMS:
        yield _head_dim("head_dim_not_dflash2", Severity.WARNING, facts.head_dim, DFLASH2_HEAD_DIMS)
    elif facts.head_dim < SMALLEST_HEAD_DIM:
        values = {"head_dim": str(facts.head_dim), "least": str(SMALLEST_HEAD_DIM)}
        yield Finding("head_dim_small", Severity.WARNING, values, field="model")


def cpu_head_dims(version: tuple[int, ...] | None) -> tuple[int, ...]:
    """Head sizes of the CPU engine's attention; empty where this version's are not known."""
    return CPU_HEAD_DIMS.get((version or ())[:2], ())


def _has_latent_cache(situation: Situation) -> bool:
    facts = situation.model.facts
    return facts is not None and any(layer.kind.value == "mla" for layer in facts.kv_layers)


def _head_dim(rule: str, severity: Severity, found: int, sizes: tuple[int, ...]) -> Finding:
    values = {"head_dim": str(found), "sizes": ", ".join(map(str, sizes))}
    return Finding(rule, severity, values, field="model")


def attention_backend(situation: Situation) -> Iterator[Finding]:
    """An attention backend that begins with a later generation, or a plugin's without the plugin."""
    wanted = (situation.preset.attention_backend or "").upper()
    least = {"FLASH_ATTN": (8, 0), "FLASHINFER": (7, 5), "FLASH_ATTN_MLA": (9, 0)}.get(wanted)
    fixes = (Fix(FixKind.DROP_FLAG, "attention-backend"),)
    for target in targets(situation) if least else ():
        if least and target.capability < least:
            values = {"backend": wanted, "card": target.name, "needed": f"{least[0]}.{least[1]}"}
            yield Finding("attention_needs_newer_card", target.severity, values, fixes, "attention_backend")


RULES = (bfloat16, kv_cache_format, nvfp4, quantization_needs_newer_card, head_dim, attention_backend)
