"""What could be changed so that the next start goes better: pure functions of what was asked and what the log said."""

import math
import re
from collections.abc import Callable, Mapping

from backend.failure.failure import Fix, FixKind, LaunchContext

Values = Mapping[str, str]

SMALL_STEP = 512  # tokens; at this size a prefill's peak is small on any card
SMALLEST_STEP = 128
SMALLEST_CONTEXT = 128
HIGHEST_UTILIZATION = 0.95  # the driver and CUDA's own context need the rest
LOWEST_UTILIZATION = 0.1
UTILIZATION_STEP = 0.05
LEFT_FREE = 0.5  # the part of the free RAM that a smaller KV cache may take
MOST_FLAGS = 4
V100_RECIPE = "v100"

_OWN_FLAGS = frozenset({"model", "host", "port", "dtype", "max-model-len", "served-model-name"})


def fixes_for(rule: str, values: Values, context: LaunchContext) -> tuple[Fix, ...]:
    """The buttons for a cause, the likeliest first; none where only a person can help."""
    find = _FIXES.get(rule)
    return find(values, context) if find else ()


def _drop_flags(values: Values, context: LaunchContext) -> tuple[Fix, ...]:
    flags = re.findall(r"(?:^| )--([A-Za-z][\w.-]{0,60})", values.get("flags", ""))
    return tuple(Fix(FixKind.DROP_FLAG, flag) for flag in dict.fromkeys(flags))[:MOST_FLAGS]


def _drop_bad_flag(values: Values, context: LaunchContext) -> tuple[Fix, ...]:
    flag, least = values.get("flag", ""), _whole(values.get("least"))
    larger = (Fix(FixKind.BATCHED_TOKENS, str(least)),) if flag == "max-num-batched-tokens" and least else ()
    return (*larger, Fix(FixKind.DROP_FLAG, flag)) if flag and flag not in _OWN_FLAGS else ()


def _drop(flag: str) -> Callable[[Values, LaunchContext], tuple[Fix, ...]]:
    return lambda values, context: (Fix(FixKind.DROP_FLAG, flag),)


def _always(fix: Fix) -> Callable[[Values, LaunchContext], tuple[Fix, ...]]:
    return lambda values, context: (fix,)


def _v100(values: Values, context: LaunchContext) -> tuple[Fix, ...]:
    return (Fix(FixKind.ENVIRONMENT, V100_RECIPE),) if context.engine == "volta" else ()


def _drop_parser(values: Values, context: LaunchContext) -> tuple[Fix, ...]:
    is_reasoning = "reasoning" in (values.get("kind", "") + values.get("flag", "")).lower()
    return (Fix(FixKind.DROP_FLAG, "reasoning-parser" if is_reasoning else "enable-auto-tool-choice"),)


def _no_quantization(values: Values, context: LaunchContext) -> tuple[Fix, ...]:
    """vLLM finds the right one in the checkpoint by itself. A checkpoint's own unknown one cannot be taken away."""
    asked = context.quantization not in (None, "", "none")
    return (Fix(FixKind.QUANTIZATION, "none"),) if asked else ()


def _context_limit(values: Values, context: LaunchContext) -> tuple[Fix, ...]:
    limit = _whole(values.get("limit"))
    return (Fix(FixKind.CONTEXT, str(limit)),) if limit is not None and limit >= SMALLEST_CONTEXT else ()


def _kv_too_small(values: Values, context: LaunchContext) -> tuple[Fix, ...]:
    if context.engine == "cpu" or context.kv_cache_gib is not None:
        needed = _number(values.get("needed"))
        more: tuple[Fix, ...] = (
            (Fix(FixKind.KV_CACHE_GIB, _gib(math.ceil(needed * 4) / 4)),) if needed is not None else ()
        )
    else:
        more = _higher_utilization(context)
    return (*_context_limit(values, context), *more)


def _kv_no_room(values: Values, context: LaunchContext) -> tuple[Fix, ...]:
    return (*_higher_utilization(context), *_more_gpus(context))


def _kv_too_big(values: Values, context: LaunchContext) -> tuple[Fix, ...]:
    available = _number(values.get("available"))
    if available is None:
        return ()
    smaller = math.floor(available * LEFT_FREE * 4) / 4
    return (Fix(FixKind.KV_CACHE_GIB, _gib(smaller)),) if smaller >= 0.25 else ()


def _memory_taken(values: Values, context: LaunchContext) -> tuple[Fix, ...]:
    free, total = _number(values.get("free")), _number(values.get("total"))
    if free is None or not total:
        return ()
    share = math.floor(free / total * 100) / 100
    return (Fix(FixKind.MEMORY_UTILIZATION, f"{share:.2f}"),) if LOWEST_UTILIZATION <= share < 1 else ()


def _divisor(values: Values, context: LaunchContext) -> tuple[Fix, ...]:
    heads, gpus = _whole(values.get("heads")), _whole(values.get("gpus"))
    if not heads or not gpus or gpus > 1024:
        return ()
    best = next((count for count in range(gpus - 1, 0, -1) if heads % count == 0), None)
    return (Fix(FixKind.GPUS, str(best)),) if best else ()


def _available_gpus(values: Values, context: LaunchContext) -> tuple[Fix, ...]:
    available = _whole(values.get("available"))
    return (Fix(FixKind.GPUS, str(available)),) if available else ()


def _oom_load(values: Values, context: LaunchContext) -> tuple[Fix, ...]:
    return _more_gpus(context)


def _oom_profiling(values: Values, context: LaunchContext) -> tuple[Fix, ...]:
    if "sequences" in values:
        return (*_fewer_sequences(context, _whole(values["sequences"])), *_lower_utilization(context))
    return (*_smaller_steps(context), *_fewer_sequences(context))


def _oom_prefill(values: Values, context: LaunchContext) -> tuple[Fix, ...]:
    return (*_smaller_steps(context), *_lower_utilization(context), *_fewer_sequences(context))


def _oom_graphs(values: Values, context: LaunchContext) -> tuple[Fix, ...]:
    eager = () if context.eager else (Fix(FixKind.EAGER, "true"),)
    return (*_lower_utilization(context), *eager)


def _oom_unknown(values: Values, context: LaunchContext) -> tuple[Fix, ...]:
    return (*_lower_utilization(context), *_smaller_steps(context))


def _host_memory(values: Values, context: LaunchContext) -> tuple[Fix, ...]:
    kv = context.kv_cache_gib
    if kv is None or kv < 0.5:
        return ()
    return (Fix(FixKind.KV_CACHE_GIB, _gib(math.floor(kv * 2) / 4)),)


def _no_compiler(values: Values, context: LaunchContext) -> tuple[Fix, ...]:
    return (Fix(FixKind.EAGER, "true"),) if values.get("language") == "C++" and not context.eager else ()


def _smaller_steps(context: LaunchContext) -> tuple[Fix, ...]:
    tokens = context.batched_tokens
    smaller = SMALL_STEP if tokens is None or tokens > SMALL_STEP else max(tokens // 2, SMALLEST_STEP)
    smaller = max(smaller, context.max_sequences or 0)  # vLLM refuses fewer tokens than requests at once
    return (Fix(FixKind.BATCHED_TOKENS, str(smaller)),) if tokens is None or smaller < tokens else ()


def _fewer_sequences(context: LaunchContext, running: int | None = None) -> tuple[Fix, ...]:
    sequences = context.max_sequences or running
    return (Fix(FixKind.MAX_SEQUENCES, str(sequences // 2)),) if sequences and sequences > 1 else ()


def _lower_utilization(context: LaunchContext) -> tuple[Fix, ...]:
    share = 0.9 if context.memory_utilization is None else context.memory_utilization  # 0.9 is vLLM's default
    lower = round(share - UTILIZATION_STEP, 2)
    return (Fix(FixKind.MEMORY_UTILIZATION, f"{lower:.2f}"),) if lower >= LOWEST_UTILIZATION else ()


def _higher_utilization(context: LaunchContext) -> tuple[Fix, ...]:
    share = 0.9 if context.memory_utilization is None else context.memory_utilization
    higher = min(round(share + UTILIZATION_STEP, 2), HIGHEST_UTILIZATION)
    return (Fix(FixKind.MEMORY_UTILIZATION, f"{higher:.2f}"),) if higher > share and context.engine != "cpu" else ()


def _more_gpus(context: LaunchContext) -> tuple[Fix, ...]:
    return (Fix(FixKind.GPUS, str(context.gpus * 2)),) if context.gpus and context.engine != "cpu" else ()


def _number(text: str | None) -> float | None:
    """A figure of the log as a number; None where it is none, or beyond any memory."""
    if text is None or not re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", text):
        return None
    return float(text)


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\d{1,9}", text) else None


def _gib(value: float) -> str:
    return f"{value:g}"


_RETRY = _always(Fix(FixKind.RETRY))

_FIXES: dict[str, Callable[[Values, LaunchContext], tuple[Fix, ...]]] = {
    "no_network": _RETRY,
    "unknown_flag": _drop_flags,
    "bad_flag_value": _drop_bad_flag,
    "port_taken": _always(Fix(FixKind.PORT)),
    "context_too_long": _context_limit,
    "kv_too_small": _kv_too_small,
    "kv_no_room": _kv_no_room,
    "kv_too_big": _kv_too_big,
    "unknown_quantization": _no_quantization,
    "quantization_mismatch": _no_quantization,
    "quantization_unsupported_card": _v100,
    "nvfp4_no_plugin": _v100,
    "tensor_parallel_indivisible": _divisor,
    "too_few_gpus": _available_gpus,
    "unknown_attention_backend": _drop("attention-backend"),
    "attention_unsupported_card": _drop("attention-backend"),
    "unknown_parser": _drop_parser,
    "speculation_incomplete": _drop("speculative-config"),
    "no_compiler": _no_compiler,
    "no_kernel_image": _v100,
    "gpu_memory_taken": _memory_taken,
    "gpu_memory_changed": _RETRY,
    "oom_load": _oom_load,
    "oom_profiling": _oom_profiling,
    "oom_prefill": _oom_prefill,
    "oom_graphs": _oom_graphs,
    "oom_unknown_phase": _oom_unknown,
    "host_memory": _host_memory,
    "killed": _RETRY,
    "crashed": _RETRY,
    "bf16_unsupported": _always(Fix(FixKind.DTYPE, "float16")),
    "triton_pass_failed": _v100,
    "triton_layout": _v100,
    "cuda_tools_too_new": _v100,
    "nccl_failure": _RETRY,
    "start_overdue": _RETRY,
}
