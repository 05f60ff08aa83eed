"""Flags that guides still name and vLLM no longer has: what each is translated to, why it is left out, or why it is refused.

Checked against the flag lists of vLLM 0.19.1, 0.23.0 and 0.32.0, which know none of these, and their sources. Four were
removed between 0.23.0 and 0.32.0.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from backend.launch.engine_tools import EngineTools
from backend.launch.notes import Note
from backend.launch.preset import Flag
from backend.launch.spelling_error import SpellingError
from backend.launch.wishes import Wishes

HYBRID_OFFLOAD_VERSION = (0, 23)
"""First version whose KV offloading was seen to serve models with several kinds of cache, such as Qwen3.5; 0.19.1 cannot."""

_FALSE_WORDS = frozenset({"0", "false", "no", "off", "none", "null"})


@dataclass(frozen=True)
class Legacy:
    """One removed flag as a preset names it."""

    flag: str  # without dashes
    value: Flag
    tools: EngineTools
    cards: int  # of the preset

    def text(self) -> str:
        """The value as one would type it."""
        return " ".join(self.value) if isinstance(self.value, tuple) else str(self.value)

    def number(self) -> float:
        """The value as a number. Raises SpellingError."""
        try:
            if isinstance(self.value, bool | tuple):
                raise ValueError
            return float(self.value)
        except ValueError as err:
            raise self.refusal("not_a_number", value=self.text()) from err

    def json(self) -> dict[str, Any]:
        """The value as a JSON object. Raises SpellingError."""
        try:
            value = json.loads(self.text())
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise self.refusal("not_an_object", value=self.text())
        return value

    def is_off(self) -> bool:
        """Whether the value switches it off."""
        return self.value is False or self.text().lower() in _FALSE_WORDS

    def note(self, key: str, **values: str) -> Note:
        return Note(key, {"flag": self.flag, "value": self.text(), **values})

    def refusal(self, key: str, *, replacement: str = "", **values: str) -> SpellingError:
        note = Note(key, {"flag": self.flag, "version": self.tools.title, **values})
        return SpellingError(note, flag=self.flag, replacement=replacement)


_Translation = Callable[[Legacy, Wishes], None]


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


def _gone(legacy: Legacy, wishes: Wishes) -> None:
    wishes.notes.append(legacy.note("no_effect"))


def _always(legacy: Legacy, wishes: Wishes) -> None:
    wishes.notes.append(legacy.note("is_default"))


def _refused(replacement: str = "") -> _Translation:
    def refuse(legacy: Legacy, wishes: Wishes) -> None:
        if legacy.is_off():
            _gone(legacy, wishes)
            return
        raise legacy.refusal("feature_gone", replacement=replacement)

    return refuse


def _renamed(to: str) -> _Translation:
    def rename(legacy: Legacy, wishes: Wishes) -> None:
        _set(legacy, wishes, to, legacy.value, "renamed")

    return rename


def _means(to: str, value: Flag) -> _Translation:
    """A switch that became a value of another flag."""

    def change(legacy: Legacy, wishes: Wishes) -> None:
        if legacy.is_off():
            _gone(legacy, wishes)
        else:
            _set(legacy, wishes, to, value, "renamed")

    return change


def _set(legacy: Legacy, wishes: Wishes, to: str, value: Flag, key: str, **values: str) -> None:
    if to in wishes.options:
        wishes.notes.append(legacy.note("already_set", replacement=to))
        return
    if not legacy.tools.has(to):
        raise legacy.refusal("feature_gone")
    wishes.options[to] = value
    wishes.notes.append(legacy.note(key, replacement=to, **values))


def _merged(to: str, key: str, read: Callable[[Legacy], Any]) -> _Translation:
    """A flag that became a key of a JSON flag; a key that is set already stays."""

    def merge(legacy: Legacy, wishes: Wishes) -> None:
        value = read(legacy)
        if not legacy.tools.has(to):
            raise legacy.refusal("feature_gone")
        if to in wishes.options or key in wishes.objects.get(to, {}):
            wishes.notes.append(legacy.note("already_set", replacement=to))
            return
        wishes.objects.setdefault(to, {})[key] = value
        wishes.notes.append(legacy.note("merged", replacement=to))

    return merge


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
        _set(legacy, wishes, "kv-offloading-size", total, "swap_to_offload", total=f"{total:g}")


def _preemption_mode(legacy: Legacy, wishes: Wishes) -> None:
    if legacy.text().lower() == "swap":
        raise legacy.refusal("no_swapping", replacement="kv_offload_gib")
    _always(legacy, wishes)


def _chunked_prefill_size(legacy: Legacy, wishes: Wishes) -> None:
    tokens = _whole(legacy)
    if tokens > 0:
        _set(legacy, wishes, "max-num-batched-tokens", tokens, "chunk_size")
    else:  # -1 is what the engine that has this flag calls off
        _set(legacy, wishes, "enable-chunked-prefill", False, "renamed")


def _device(legacy: Legacy, wishes: Wishes) -> None:
    wishes.notes.append(legacy.note("device_is_fixed"))


def _guided_backend(legacy: Legacy) -> str:
    return legacy.text().split(":", 1)[0]  # options stood behind a colon


def _guided(key: str, *backends: str) -> _Translation:
    """A switch of guided decoding that only these backends have; vLLM refuses it with any other, `auto` among them."""

    def switch(legacy: Legacy, wishes: Wishes) -> None:
        to = "structured-outputs-config"
        backend = wishes.objects.get(to, {}).get("backend", "auto")
        if legacy.is_off() or (backend != "auto" and backend not in backends):
            _gone(legacy, wishes)
            return
        _merged(to, key, lambda _: True)(legacy, wishes)
        if to in wishes.objects:
            wishes.objects[to]["backend"] = backend if backend in backends else backends[0]

    return switch


def _no_request_log(legacy: Legacy, wishes: Wishes) -> None:
    if legacy.is_off():
        _set(legacy, wishes, "enable-log-requests", True, "renamed")
    else:
        _always(legacy, wishes)


def _enable_reasoning(legacy: Legacy, wishes: Wishes) -> None:
    if not legacy.is_off() and "reasoning-parser" not in wishes.options:
        raise legacy.refusal("needs_reasoning_parser", replacement="flags: reasoning-parser")
    _always(legacy, wishes)


def _rope(key: str) -> _Translation:
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
    _set(legacy, wishes, "pooler-config", json.dumps(values), "renamed")


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
        _always(legacy, wishes)
        return
    _set(legacy, wishes, "runner", runner, "renamed")
    if convert and legacy.tools.has("convert"):
        wishes.options.setdefault("convert", convert)


def _speculative_model(legacy: Legacy, wishes: Wishes) -> None:
    """The square brackets were the way to say that no second model guesses."""
    to, name = "speculative-config", legacy.text()
    key, value = ("method", name.strip("[]")) if name.startswith("[") else ("model", name)
    _merged(to, key, lambda _: value)(legacy, wishes)


REMOVED: Mapping[str, _Translation] = {
    # memory and scheduling
    "swap-space": _swap_space,
    "preemption-mode": _preemption_mode,
    "chunked-prefill-size": _chunked_prefill_size,
    "use-v2-block-manager": _always,
    "num-lookahead-slots": _gone,
    "num-scheduler-steps": _gone,
    "multi-step-stream-outputs": _gone,
    "scheduler-delay-factor": _gone,
    "disable-async-output-proc": _gone,
    "max-seq-len-to-capture": _gone,
    "max-context-len-to-capture": _gone,
    "cuda-graph-sizes": _renamed("cudagraph-capture-sizes"),
    "max-num-partial-prefills": _gone,
    "max-long-partial-prefills": _gone,
    "calculate-kv-scales": _gone,
    "override-attention-dtype": _gone,
    "quantization-param-path": _gone,
    # processes
    "device": _device,
    "worker-use-ray": _means("distributed-executor-backend", "ray"),
    "engine-use-ray": _gone,
    "disable-frontend-multiprocessing": _gone,
    "tokenizer-pool-size": _gone,
    "tokenizer-pool-type": _gone,
    "tokenizer-pool-extra-config": _gone,
    # requests
    "disable-log-requests": _no_request_log,
    "enable-reasoning": _enable_reasoning,
    "guided-decoding-backend": _merged("structured-outputs-config", "backend", _guided_backend),
    "guided-decoding-disable-fallback": _gone,
    "guided-decoding-disable-any-whitespace": _guided("disable_any_whitespace", "xgrammar", "guidance"),
    "guided-decoding-disable-additional-properties": _guided("disable_additional_properties", "guidance"),
    "logits-processor-pattern": _refused("flags: logits-processors"),
    # models
    "task": _task,
    "rope-scaling": _rope("scaling"),
    "rope-theta": _rope("theta"),
    "override-pooler-config": _pooler,
    "override-neuron-config": _refused(),
    "disable-mm-preprocessor-cache": _means("mm-processor-cache-gb", 0),
    "enable-multimodal-encoder-data-parallel": _means("mm-encoder-tp-mode", "data"),
    "enable-lora-bias": _refused(),
    "lora-extra-vocab-size": _gone,
    "long-lora-scaling-factors": _refused(),
    "enable-prompt-adapter": _refused(),
    "max-prompt-adapters": _gone,
    "max-prompt-adapter-token": _gone,
    # speculation
    "speculative-model": _speculative_model,
    "num-speculative-tokens": _merged("speculative-config", "num_speculative_tokens", _whole),
    "ngram-prompt-lookup-max": _merged("speculative-config", "prompt_lookup_max", _whole),
    "ngram-prompt-lookup-min": _merged("speculative-config", "prompt_lookup_min", _whole),
    "speculative-draft-tensor-parallel-size": _merged("speculative-config", "draft_tensor_parallel_size", _whole),
    "speculative-max-model-len": _merged("speculative-config", "max_model_len", _whole),
    "speculative-model-quantization": _merged("speculative-config", "quantization", _text),
    "speculative-disable-by-batch-size": _gone,
    "speculative-disable-mqa-scorer": _gone,
    "spec-decoding-acceptance-method": _gone,
    "typical-acceptance-sampler-posterior-threshold": _gone,
    "typical-acceptance-sampler-posterior-alpha": _gone,
    "disable-logprobs-during-spec-decoding": _gone,
}
"""Removed flag, without dashes -> what becomes of it. Translated in this order: some ask what the ones before have set."""
