"""Flags that guides still name and vLLM no longer has: what each is translated to, why it is left out, or why it is refused.

Checked against the flag lists of vLLM 0.19.1, 0.23.0 and 0.32.0, which know none of these, and their sources. Four were
removed between 0.23.0 and 0.32.0.
"""

import json
from collections.abc import Mapping

from backend.launch.engine_tools import EngineTools
from backend.launch.legacy_flag import Legacy, Translation, always, gone, means, merged, refused, renamed, set_flag
from backend.launch.preset import Flag
from backend.launch.wishes import Wishes

HYBRID_OFFLOAD_VERSION = (0, 23)
"""First version whose KV offloading was seen to serve models with several kinds of cache, such as Qwen3.5; 0.19.1 cannot."""


def is_removed(flag: str) -> bool:
    """Whether some vLLM had this flag (without dashes) and newer ones do not."""
    return flag in REMOVED


def translate_removed(flags: Mapping[str, Flag], *, wishes: Wishes, tools: EngineTools, cards: int) -> None:
    """Add to `wishes` what the removed flags stand for, with a note of what became of each.

    Raises:
        SpellingError: one cannot be done any more; says why, and what to use.
    """
    for flag, translate in REMOVED.items():
        if flag in flags:
            translate(Legacy(flag, flags[flag], tools, max(1, cards)), wishes)


def _whole(legacy: Legacy) -> int:
    return int(legacy.number())


def _text(legacy: Legacy) -> str:
    return legacy.text()


def _swap_space(legacy: Legacy, wishes: Wishes) -> None:
    """It was GiB of main memory for each card; the buffer that replaces it is one for all cards."""
    gib = legacy.number()
    if gib <= 0:
        wishes.notes.append(legacy.note("swap_zero"))
    elif legacy.tools.is_older_than(*HYBRID_OFFLOAD_VERSION) or not legacy.tools.has("kv-offloading-size"):
        wishes.notes.append(legacy.note("swap_left_out"))
    else:
        total = gib * legacy.cards
        set_flag(legacy, wishes, "kv-offloading-size", total, "swap_to_offload", total=f"{total:g}")


def _preemption_mode(legacy: Legacy, wishes: Wishes) -> None:
    if legacy.text().lower() == "swap":
        raise legacy.refusal("no_swapping", replacement="kv_offload_gib")
    always(legacy, wishes)


def _chunked_prefill_size(legacy: Legacy, wishes: Wishes) -> None:
    tokens = _whole(legacy)
    if tokens > 0:
        set_flag(legacy, wishes, "max-num-batched-tokens", tokens, "chunk_size")
    else:  # -1 is what the engine that has this flag calls off
        set_flag(legacy, wishes, "enable-chunked-prefill", False, "renamed")


def _device(legacy: Legacy, wishes: Wishes) -> None:
    wishes.notes.append(legacy.note("device_is_fixed"))


def _guided_backend(legacy: Legacy) -> str:
    return legacy.text().split(":", 1)[0]  # options stood behind a colon


def _guided(key: str, *backends: str) -> Translation:
    """A switch of guided decoding that only these backends have; vLLM refuses it with any other, `auto` among them."""

    def switch(legacy: Legacy, wishes: Wishes) -> None:
        to = "structured-outputs-config"
        backend = wishes.objects.get(to, {}).get("backend", "auto")
        if legacy.is_off() or (backend != "auto" and backend not in backends):
            gone(legacy, wishes)
            return
        merged(to, key, lambda _: True)(legacy, wishes)
        if to in wishes.objects:
            wishes.objects[to]["backend"] = backend if backend in backends else backends[0]

    return switch


def _no_request_log(legacy: Legacy, wishes: Wishes) -> None:
    if legacy.is_off():
        set_flag(legacy, wishes, "enable-log-requests", True, "renamed")
    else:
        always(legacy, wishes)


def _enable_reasoning(legacy: Legacy, wishes: Wishes) -> None:
    if not legacy.is_off() and "reasoning-parser" not in wishes.options:
        raise legacy.refusal("needs_reasoning_parser", replacement="flags: reasoning-parser")
    always(legacy, wishes)


def _rope(key: str) -> Translation:
    """Merged one level deeper than the others: scaling and theta share an object."""

    def rope(legacy: Legacy, wishes: Wishes) -> None:
        values = legacy.json() if key == "scaling" else {"rope_theta": legacy.number()}
        if "hf-overrides" in wishes.options:
            wishes.notes.append(legacy.note("already_set", replacement="hf-overrides"))
            return
        if "type" in values:
            values["rope_type"] = values.pop("type")
        parameters = wishes.objects.setdefault("hf-overrides", {}).setdefault("rope_parameters", {})
        parameters.update(values)
        wishes.notes.append(legacy.note("merged", replacement="hf-overrides"))

    return rope


def _pooler(legacy: Legacy, wishes: Wishes) -> None:
    """Three words for the last step of pooling became one."""
    values = {
        "use_activation" if key in ("normalize", "softmax", "activation") else key: value
        for key, value in legacy.json().items()
    }
    set_flag(legacy, wishes, "pooler-config", json.dumps(values), "renamed")


_TASKS: Mapping[str, tuple[str, str]] = {
    "embed": ("pooling", "embed"),
    "embedding": ("pooling", "embed"),
    "classify": ("pooling", "classify"),
    "score": ("pooling", "classify"),
    "reward": ("pooling", ""),
}


def _task(legacy: Legacy, wishes: Wishes) -> None:
    runner, convert = _TASKS.get(legacy.text().lower(), ("", ""))
    if not runner:
        always(legacy, wishes)
        return
    set_flag(legacy, wishes, "runner", runner, "renamed")
    if convert and legacy.tools.has("convert"):
        wishes.options.setdefault("convert", convert)


def _speculative_model(legacy: Legacy, wishes: Wishes) -> None:
    """The square brackets were the way to say that no second model guesses."""
    to, name = "speculative-config", legacy.text()
    key, value = ("method", name.strip("[]")) if name.startswith("[") else ("model", name)
    merged(to, key, lambda _: value)(legacy, wishes)


REMOVED: Mapping[str, Translation] = {
    # memory and scheduling
    "swap-space": _swap_space,
    "preemption-mode": _preemption_mode,
    "chunked-prefill-size": _chunked_prefill_size,
    "use-v2-block-manager": always,
    "num-lookahead-slots": gone,
    "num-scheduler-steps": gone,
    "multi-step-stream-outputs": gone,
    "scheduler-delay-factor": gone,
    "disable-async-output-proc": gone,
    "max-seq-len-to-capture": gone,
    "max-context-len-to-capture": gone,
    "cuda-graph-sizes": renamed("cudagraph-capture-sizes"),
    "max-num-partial-prefills": gone,
    "max-long-partial-prefills": gone,
    "calculate-kv-scales": gone,
    "override-attention-dtype": gone,
    "quantization-param-path": gone,
    # processes
    "device": _device,
    "worker-use-ray": means("distributed-executor-backend", "ray"),
    "engine-use-ray": gone,
    "disable-frontend-multiprocessing": gone,
    "tokenizer-pool-size": gone,
    "tokenizer-pool-type": gone,
    "tokenizer-pool-extra-config": gone,
    # requests
    "disable-log-requests": _no_request_log,
    "enable-reasoning": _enable_reasoning,
    "guided-decoding-backend": merged("structured-outputs-config", "backend", _guided_backend),
    "guided-decoding-disable-fallback": gone,
    "guided-decoding-disable-any-whitespace": _guided("disable_any_whitespace", "xgrammar", "guidance"),
    "guided-decoding-disable-additional-properties": _guided("disable_additional_properties", "guidance"),
    "logits-processor-pattern": refused("flags: logits-processors"),
    # models
    "task": _task,
    "rope-scaling": _rope("scaling"),
    "rope-theta": _rope("theta"),
    "override-pooler-config": _pooler,
    "override-neuron-config": refused(),
    "disable-mm-preprocessor-cache": means("mm-processor-cache-gb", 0),
    "enable-multimodal-encoder-data-parallel": means("mm-encoder-tp-mode", "data"),
    "enable-lora-bias": refused(),
    "lora-extra-vocab-size": gone,
    "long-lora-scaling-factors": refused(),
    "enable-prompt-adapter": refused(),
    "max-prompt-adapters": gone,
    "max-prompt-adapter-token": gone,
    # speculation
    "speculative-model": _speculative_model,
    "num-speculative-tokens": merged("speculative-config", "num_speculative_tokens", _whole),
    "ngram-prompt-lookup-max": merged("speculative-config", "prompt_lookup_max", _whole),
    "ngram-prompt-lookup-min": merged("speculative-config", "prompt_lookup_min", _whole),
    "speculative-draft-tensor-parallel-size": merged("speculative-config", "draft_tensor_parallel_size", _whole),
    "speculative-max-model-len": merged("speculative-config", "max_model_len", _whole),
    "speculative-model-quantization": merged("speculative-config", "quantization", _text),
    "speculative-disable-by-batch-size": gone,
    "speculative-disable-mqa-scorer": gone,
    "spec-decoding-acceptance-method": gone,
    "typical-acceptance-sampler-posterior-threshold": gone,
    "typical-acceptance-sampler-posterior-alpha": gone,
    "disable-logprobs-during-spec-decoding": gone,
}
"""Removed flag, without dashes -> what becomes of it. Translated in this order: some ask what the ones before have set."""
